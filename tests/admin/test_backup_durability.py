"""A power failure leaves either a whole backup or none, and after a restore either a whole node or none."""

import os
from pathlib import Path

import pytest

from node.admin.restore import restore
from node.config import Settings
from tests.admin.conftest import MakeBackup


class Disk:
    """Records which inodes have been synced to disk: when a file got its final name, and since the last rename."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at_rename: dict[Path, set[int]] = {}
        self.since_rename: set[int] = set()
        fsync, rename = os.fsync, Path.rename

        def record(descriptor: int) -> None:
            fsync(descriptor)
            self.since_rename.add(os.fstat(descriptor).st_ino)

        def record_before(path: Path, target: Path) -> Path:
            self.at_rename[target], self.since_rename = self.since_rename, set()
            return rename(path, target)

        monkeypatch.setattr(os, "fsync", record)
        monkeypatch.setattr(Path, "rename", record_before)

    def lacked(self, directory: Path, renamed: Path) -> list[str]:
        """Return the files and directories, `directory` included, that had not been synced when `renamed` got its final
        name.
        """
        paths = [directory, *directory.rglob("*")]
        return [str(path) for path in paths if path.stat().st_ino not in self.at_rename[renamed]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with keys and the bytes of an artifact."""
    data = tmp_path / "data"
    (data / "blobs" / "ab").mkdir(parents=True)
    for name in ("secret", "signing-key", "blobs/ab/an-artifact"):
        (data / name).write_text("bytes")
    return data


async def test_a_backup_and_a_node_made_of_it_are_on_the_disk_before_they_count(
    tmp_path: Path, data: Path, make_backup: MakeBackup, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, backup, new = Disk(monkeypatch), tmp_path / "backups" / "one", tmp_path / "new"
    await make_backup(backup, data_dir=data)
    assert disk.lacked(backup, backup / "backup.json") == []
    assert {backup.stat().st_ino, backup.parent.stat().st_ino} <= disk.since_rename

    restore(Settings(data_dir=new), backup)
    log = new / "redis" / "appendonlydir"
    assert disk.lacked(new, log) == [str(new / "redis")], "whose names count from then on"
    assert {(new / "redis").stat().st_ino, new.stat().st_ino} <= disk.since_rename
