"""Backups named by time: which ones are removed for a new one, and what a failed one leaves behind."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from node.admin.backup import MANIFEST, STAMPED, BackupError, remove_all_but, remove_remains, superseded
from node.common.folder_lock import locked
from tests.admin.conftest import MakeBackup
from tests.admin.test_backup import command
from tests.support.servers import RedisServer
from tests.support.users import shut

OLD, OLDER, FUTURE = "2026-01-02T030000Z", "2026-01-01T030000Z", "2999-01-01T030000Z"


def test_only_what_is_named_by_the_time_is_superseded_and_never_what_was_just_made() -> None:
    names = [OLD, "before-upgrade", "2025", FUTURE, OLDER]
    assert superseded(names, OLDER, 1) == [OLD, FUTURE], "the clock was set back"
    assert superseded(names, FUTURE, 2) == [OLDER]
    assert superseded(names, FUTURE, 9) == []


def test_a_backup_leaves_those_that_the_operator_has_named(tmp_path: Path) -> None:
    place = tmp_path / "backups"
    for name in ("before-upgrade", OLD, OLDER, "zone"):
        (place / name).mkdir(parents=True)
        (place / name / MANIFEST).touch()
    (place / OLD / MANIFEST).unlink()
    with RedisServer(tmp_path / "redis", "--repl-diskless-sync-delay", "0") as server:
        words = ("admin", "backup", "--into", "--keep", "1", str(place))
        made = command(tmp_path / "data", *words, RELAY_REDIS_URL=server.url)
    assert made.returncode == 0, made.stderr
    stamped, *named = sorted(path.name for path in place.iterdir())
    assert (named, STAMPED.fullmatch(stamped) is not None) == (["before-upgrade", "zone"], True)
    assert (place / stamped / MANIFEST).exists()


def test_remains_of_another_user_are_skipped() -> None:
    with TemporaryDirectory() as folder:  # in a directory that others may enter, unlike the tests' own
        place = Path(folder)
        place.chmod(0o755)
        (place / OLD).mkdir()
        with shut(place / OLD):
            remove_remains(place)
        assert (place / OLD).exists()


def test_a_backup_that_cannot_be_removed_keeps_none_of_the_others(tmp_path: Path) -> None:
    for name in (OLD, OLDER):
        (tmp_path / name).mkdir()
        (tmp_path / name / MANIFEST).touch()
    (tmp_path / OLDER / MANIFEST).unlink()
    (tmp_path / OLDER / MANIFEST).mkdir()  # a directory is not removed as a file is
    gone, left = remove_all_but(tmp_path, 1, FUTURE)
    assert gone == [str(tmp_path / OLD)]
    assert left == [f"{tmp_path / OLDER}: Is a directory"]


def test_a_backup_that_is_whole_or_being_made_is_not_removed(tmp_path: Path) -> None:
    for name in (OLD, OLDER, FUTURE, "before-upgrade"):
        (tmp_path / name).mkdir()
    (tmp_path / FUTURE / MANIFEST).touch()
    with locked(tmp_path / OLD):
        remove_remains(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [OLD, FUTURE, "before-upgrade"]


async def test_a_backup_is_not_taken_for_remains_while_it_is_made(tmp_path: Path, make_backup: MakeBackup) -> None:
    place, blobs = tmp_path / "backups", tmp_path / "data" / "blobs" / "ab"
    blobs.mkdir(parents=True)
    (blobs / "an-artifact").write_text("bytes")

    class Digests(dict[str, str]):
        """Looked up in the middle of a backup. At that moment another backup begins and removes remains."""

        def get(self, key: str, default: Any = None) -> Any:
            remove_remains(place)
            return super().get(key, default)

    assert (await make_backup(place / OLD, Digests(), data_dir=tmp_path / "data")).blobs == 1
    assert (place / OLD / MANIFEST).exists()


async def test_a_backup_that_fails_gives_its_room_back(tmp_path: Path, make_backup: MakeBackup) -> None:
    (tmp_path / "data" / "secret").mkdir(parents=True)  # a directory cannot be copied as a file
    with pytest.raises(BackupError, match="secret"):
        await make_backup(tmp_path / "backup", data_dir=tmp_path / "data")
    assert not (tmp_path / "backup").exists()
