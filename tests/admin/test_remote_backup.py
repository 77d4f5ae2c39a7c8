"""How files become the objects of a bucket, and files again; the bucket of these tests is a dictionary."""

from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import cast

import pytest

from node.admin import remote_backup
from node.admin.backup import BackupError
from node.admin.remote_backup import fetched, remove_all_but_remote, send
from node.config import Settings
from node.run.objects import Objects

OLD, NEW = "2026-11-25T030000Z", "2026-11-26T030000Z"


class Bucket:
    """Objects by name, and what was done to them."""

    def __init__(self, *names: str) -> None:
        self.kept = dict.fromkeys(names, b"")
        self.changed: list[str] = []

    async def names(self) -> list[str]:
        return list(self.kept)

    async def put(self, name: str, chunks: AsyncIterator[bytes], size: int, digest: bytes) -> None:
        content = b"".join([chunk async for chunk in chunks])
        assert (len(content), sha256(content).digest()) == (size, digest)
        self.kept[name] = content
        self.changed.append(name)

    async def get(self, name: str) -> AsyncIterator[bytes]:
        yield self.kept[name]

    async def delete(self, name: str) -> None:
        self.kept.pop(name, None)
        self.changed.append(name)

    async def close(self) -> None:
        pass


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Bucket:
    bucket = Bucket()

    def objects_at(*_: object) -> Bucket:
        return bucket

    monkeypatch.setattr(remote_backup, "objects_at", objects_at)
    return bucket


async def test_a_backup_comes_back_as_it_went(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts, of which there may be more than ten; an empty file is one, too."""
    monkeypatch.setattr(remote_backup, "PART_BYTES", 4)
    files = {"backup.json": b"{}", "blobs/ab/one": b"", "redis-0.rdb": bytes(range(50)), "secret": b"four"}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    await send(cast("Objects", bucket), tmp_path)
    assert bucket.changed[-1] == "backup.json", "without it the backup is not whole"
    async with fetched(Settings(), "s3://bucket/one") as folder:
        found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
        assert {name: path.read_bytes() for name, path in found.items()} == files
        assert {path.stat().st_mode & 0o077 for path in found.values()} == {0}


async def test_what_is_not_a_whole_backup_is_not_fetched(bucket: Bucket) -> None:
    bucket.kept = {"redis-0.rdb": b"x"}
    with pytest.raises(BackupError, match="not a whole backup"):
        async with fetched(Settings(), "s3://bucket/one"):
            raise AssertionError


@pytest.mark.parametrize("name", ["../outside", "blobs/../../outside", "/outside"])
async def test_no_object_leads_out_of_the_directory(bucket: Bucket, name: str) -> None:
    bucket.kept = {"backup.json": b"{}", name: b"x"}
    with pytest.raises(BackupError, match="is not the name of a file of a backup"):
        async with fetched(Settings(), "s3://bucket/one"):
            raise AssertionError


async def test_of_a_backup_that_is_removed_the_manifest_goes_first() -> None:
    """A removal that is interrupted leaves no whole backup."""
    bucket = Bucket(f"{OLD}/a.rdb", f"{OLD}/backup.json", f"{NEW}/backup.json", "by hand/backup.json")
    assert await remove_all_but_remote(cast("Objects", bucket), 1, NEW) == ([OLD], [])
    assert bucket.changed[0] == f"{OLD}/backup.json"
    assert list(bucket.kept) == [f"{NEW}/backup.json", "by hand/backup.json"]
