"""A path below a directory that another user has closed is reported as an unusable setting, without a traceback."""

import os
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import msgspec
import pytest

from node.admin import check
from node.common.file_access import existing
from node.config import ConfigError, Settings
from node.run.validation import validate
from tests.support.users import shut


@pytest.fixture
def closed() -> Generator[Path]:
    """A directory closed to this user. Its parents are open to everybody, unlike those of `tmp_path`."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        private = Path(folder) / "private"
        (private / "redis").mkdir(parents=True)
        with shut(private):
            yield private


def test_metrics_are_not_to_be_written_there(closed: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written: choose another directory"):
        validate(Settings(metrics_dir=str(closed / "metrics")))


def test_a_directory_below_one_whose_name_is_not_utf_8_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a setting must be refused before the node starts, not end in a traceback."""
    monkeypatch.setattr(os, "getcwd", lambda: "/srv/\udcff")
    with pytest.raises(ConfigError, match="not UTF-8; choose another"):
        validate(Settings(data_dir=Path("data")))


def test_a_relative_path_needs_a_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "source").mkdir()
    monkeypatch.chdir(tmp_path / "source")
    (tmp_path / "source").rmdir()
    with pytest.raises(ConfigError, match="RELAY_DATA_DIR='data': the working directory is gone; start from another"):
        validate(Settings(data_dir=Path("data")))


@pytest.mark.parametrize(
    ("finding", "setting", "said"),
    [
        (check.blobs, "blob_url", "private is not writable: set RELAY_BLOB_URL"),
        (check.model, "embedding_model", "does not exist for this user"),
    ],
)
def test_check_says_what_is_missing(
    closed: Path, finding: Callable[[Settings], check.Finding], setting: str, said: str
) -> None:
    url = {"blob_url": f"file://{closed}/below", "embedding_model": f"{closed}/below"}[setting]
    found = finding(msgspec.structs.replace(Settings(), **{setting: url}))
    assert (found.mark, said in found.sentence) == ("missing", True)


def test_check_of_the_data_of_another_user_goes_on(closed: Path) -> None:
    settings = Settings(data_dir=closed)
    assert existing(closed / "redis") == closed
    assert check.data_dir(settings).mark == "missing"
    assert "belongs to another user" in list(check.store(settings))[-1].sentence
    assert check.keys(settings).mark == "ok"
