"""How files become objects of a bucket and files again. In these tests, the bucket is a dictionary."""

from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import cast

import msgspec
import pytest

from node.admin import remote_backup
from node.admin.backup import MANIFEST, Backup, BackupError, check, copied
from node.admin.remote_backup import fetched, remove_all_but_remote, send
from node.config import Settings
from node.run.bucket_files import BlobUnavailable, BucketFiles

OLD, NEW = "2026-11-25T030000Z", "2026-11-26T030000Z"


class Bucket:
    """Stands in for BucketFiles: contents by name, and the changes in order."""

    def __init__(self, *names: str) -> None:
        self.kept = dict.fromkeys(names, b"")
        self.changed: list[str] = []
        self.takes_no = self.loses_answer_to = ""

    async def names(self) -> list[str]:
        return list(self.kept)

    async def put(self, name: str, chunks: AsyncIterator[bytes], size: int, digest: bytes) -> None:
        content = b"".join([chunk async for chunk in chunks])
        assert (len(content), sha256(content).digest()) == (size, digest)
        if name == self.takes_no:
            raise BlobUnavailable("it answered 503")
        self.kept[name] = content
        self.changed.append(name)
        if name == self.loses_answer_to:
            raise BlobUnavailable("it did not answer")

    async def get(self, name: str) -> AsyncIterator[bytes]:
        yield self.kept[name]

    async def delete(self, name: str) -> None:
        self.kept.pop(name, None)
        self.changed.append(name)

    async def close(self) -> None:
        pass


def written(folder: Path, **files: bytes) -> bytes:
    """Write the files of a backup to a folder. Returns its manifest."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    redis = [copied(each) for each in folder.glob("*.rdb")]
    backup = Backup(
        version="", node_id="", created_at="", redis=redis, keys=[], blobs=0, blob_bytes=0, blob_list=None, blob_url=""
    )
    (folder / MANIFEST).write_bytes(msgspec.json.encode(backup))
    return (folder / MANIFEST).read_bytes()


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Bucket:
    bucket = Bucket()

    def bucket_files_at(*_: object) -> Bucket:
        return bucket

    monkeypatch.setattr(remote_backup, "bucket_files_at", bucket_files_at)
    return bucket


async def test_a_backup_comes_back_as_it_went(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large files are split into parts, possibly more than ten. An empty file is one part."""
    monkeypatch.setattr(remote_backup, "PART_BYTES", 500)
    files = {"blobs/ab/one": b"", "redis-0.rdb": bytes(range(250)) * 23, "secret": b"four"}
    files["backup.json"] = written(tmp_path, **files)
    await send(cast("BucketFiles", bucket), tmp_path)
    assert bucket.changed[-1] == "backup.json", "without it the backup is not whole"
    async with fetched(Settings(), "s3://bucket/one") as folder:
        found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
        assert {name: path.read_bytes() for name, path in found.items()} == files
        assert {path.stat().st_mode & 0o077 for path in found.values()} == {0}


async def test_a_backup_may_take_the_place_of_a_larger_one(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts left over from the larger backup would make the Redis snapshot unreadable."""
    monkeypatch.setattr(remote_backup, "PART_BYTES", 500)
    for size in (1200, 1000, 700):
        (folder := tmp_path / str(size)).mkdir()
        written(folder, **{"redis-0.rdb": bytes(size)})
        await send(cast("BucketFiles", bucket), folder)
        assert "redis-0.rdb.part-0002" in bucket.kept
        async with fetched(Settings(), "s3://bucket/latest") as found:
            check(found)


async def test_what_is_not_a_whole_backup_is_not_fetched(bucket: Bucket) -> None:
    bucket.kept = {"redis-0.rdb": b"x"}
    with pytest.raises(BackupError, match="not a whole backup"):
        async with fetched(Settings(), "s3://bucket/one"):
            raise AssertionError


@pytest.mark.parametrize("name", ["../outside", "blobs/../../outside", "/outside"])
async def test_no_object_leads_out_of_the_directory(bucket: Bucket, tmp_path: Path, name: str) -> None:
    bucket.kept = {"backup.json": written(tmp_path), name: b"x"}
    with pytest.raises(BackupError, match="is not the name of a file of a backup"):
        async with fetched(Settings(), "s3://bucket/one"):
            raise AssertionError


async def test_of_a_backup_that_is_removed_the_manifest_goes_first() -> None:
    """An interrupted removal must not leave what looks like a whole backup."""
    bucket = Bucket(f"{OLD}/a.rdb", f"{OLD}/backup.json", f"{NEW}/backup.json", "by hand/backup.json")
    assert await remove_all_but_remote(cast("BucketFiles", bucket), 1, NEW) == ([OLD], [])
    assert bucket.changed[0] == f"{OLD}/backup.json"
    assert list(bucket.kept) == [f"{NEW}/backup.json", "by hand/backup.json"]


async def test_a_backup_that_fails_leaves_nothing_behind(bucket: Bucket, tmp_path: Path) -> None:
    bucket.takes_no = f"{NEW}/{MANIFEST}"
    written(tmp_path, **{"redis-0.rdb": b"data", "secret": b"four"})
    with pytest.raises(BlobUnavailable):
        await send(cast("BucketFiles", bucket), tmp_path, f"{NEW}/")
    assert bucket.changed == [f"{NEW}/redis-0.rdb", f"{NEW}/secret"] * 2, "put, and deleted again"
    assert bucket.kept == {}


async def test_a_backup_that_fails_leaves_the_one_that_was_there(bucket: Bucket, tmp_path: Path) -> None:
    """Both backups hold the bytes of the same artifacts, so removing those of the failed one would damage the earlier
    one.
    """
    written(tmp_path, **{"blobs/ab/one": b"bytes", "redis-0.rdb": b"data"})
    await send(cast("BucketFiles", bucket), tmp_path)
    before, bucket.takes_no = dict(bucket.kept), "redis-0.rdb"
    with pytest.raises(BlobUnavailable):
        await send(cast("BucketFiles", bucket), tmp_path)
    assert bucket.kept == before


async def test_a_backup_whose_last_answer_was_lost_stays_whole(bucket: Bucket, tmp_path: Path) -> None:
    """Otherwise the manifest could stay without its files, and `--keep` would count it as a backup."""
    bucket.loses_answer_to = MANIFEST
    files = {"redis-0.rdb": b"data"}
    files[MANIFEST] = written(tmp_path, **files)
    with pytest.raises(BlobUnavailable):
        await send(cast("BucketFiles", bucket), tmp_path)
    assert bucket.kept == files


async def test_what_a_killed_backup_has_left_is_removed_a_day_later() -> None:
    """Not before: a backup that is still being sent looks the same in a bucket."""
    sending, by_hand = "2026-11-25T040000Z/secret", "by hand/secret"
    bucket = Bucket(f"{OLD}/secret", sending, by_hand, f"{NEW}/backup.json", "no backup")
    assert await remove_all_but_remote(cast("BucketFiles", bucket), 5, NEW) == ([], [])
    later = "2026-11-26T030001Z"
    assert await remove_all_but_remote(cast("BucketFiles", bucket), 5, later) == ([OLD], [])
    assert list(bucket.kept) == [sending, by_hand, f"{NEW}/backup.json", "no backup"]
