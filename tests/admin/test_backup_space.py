"""How much disk space a backup may take: it leaves the space that the node reserves."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from node.admin.backup import BackupError
from node.admin.backup_space import BackupSpace
from node.config import Settings
from tests.admin.conftest import MakeBackup
from tests.admin.test_backup import BYTES


async def test_a_backup_leaves_what_the_node_reserves_of_its_disk(tmp_path: Path, make_backup: MakeBackup) -> None:
    node, backup, elsewhere = tmp_path / "node", tmp_path / "backup", Path("/dev/shm")
    (node / "blobs" / "ab").mkdir(parents=True)
    (node / "blobs" / "ab" / "an-artifact").write_bytes(BYTES)
    with pytest.raises(BackupError, match="RELAY_BLOB_RESERVE"):
        await make_backup(backup, data_dir=node, blob_reserve=2**60)
    assert not backup.exists()
    with TemporaryDirectory(dir=elsewhere) as other_disk:
        assert (await make_backup(Path(other_disk), data_dir=node, blob_reserve=2**60)).blobs == 1


async def test_each_file_of_a_backup_is_counted_before_it_is_written(
    tmp_path: Path, make_backup: MakeBackup, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, taken, take = tmp_path / "node", list[int](), BackupSpace.take
    (node / "blobs" / "ab").mkdir(parents=True)
    (node / "blobs" / "ab" / "an-artifact").write_bytes(BYTES)

    def noted(space: BackupSpace, size: int) -> None:
        taken.append(size)
        take(space, size)

    monkeypatch.setattr(BackupSpace, "take", noted)
    made = await make_backup(tmp_path / "backup", data_dir=node, blob_reserve=1)
    assert sum(taken) >= sum(file.byte_size for file in made.redis) + len(BYTES)
    assert taken[-1] == len(BYTES)
    with pytest.raises(OSError, match="RELAY_BLOB_RESERVE"):
        take(BackupSpace(Settings(redis_url="redis://r", data_dir=node, blob_reserve=1), tmp_path / "backup"), 2**60)
    for disk_reserve, blob_reserve, name in ((2**60, 1, "RELAY_DISK_RESERVE"), (1, 2**60, "RELAY_BLOB_RESERVE")):
        settings = Settings(data_dir=node, disk_reserve=disk_reserve, blob_reserve=blob_reserve)
        with pytest.raises(OSError, match=name):
            take(BackupSpace(settings, tmp_path / "backup"), 0)
