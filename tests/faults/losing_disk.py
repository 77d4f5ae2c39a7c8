"""A disk that can be full, and forgets at a power loss what was not fsynced: its mount (`losing_filesystem.py`)."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import pytest

from tests.support.servers import PATIENCE, until

UNSYNCED = "user.unsynced"
"""Extended attribute of the root: bytes that a power loss would lose now."""

SYNCED = "user.synced"
"""Extended attribute of the root: when (s, monotonic) the last write that was fsynced began."""

POWER = "user.power"
"""Extended attribute of the root; setting it to `off` is the power loss."""

ROOM = "user.room"
"""Extended attribute of the root: while it is `none`, nothing can be written."""


def without_fuse() -> str:
    """Why there can be no such disk here; empty if there can."""
    if shutil.which("fusermount3") is None or find_spec("mfusepy") is None:
        return "fuse3 or mfusepy is not installed"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"/dev/fuse: {error.strerror}"
    return ""


needs_fuse = pytest.mark.skipif("CI" not in os.environ and bool(without_fuse()), reason=without_fuse())


class LosingDisk:
    """The mount of such a disk, for as long as the context lasts. Raises OSError where FUSE does not work."""

    def __init__(self, folder: Path) -> None:
        self.backing = folder / "backing"
        self.mount = folder / "mount"

    def __enter__(self) -> Self:
        for place in (self.backing, self.mount):
            place.mkdir(parents=True)
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-W",
                "ignore",
                "-m",
                "tests.faults.losing_filesystem",
                str(self.backing),
                str(self.mount),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        until(lambda: self.mount.is_mount() or self._process.poll() is not None, "the disk is mounted")
        if not self.mount.is_mount():
            raise OSError(self._process.communicate()[1])
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["fusermount3", "-u", "-z", str(self.mount)], check=False)
        self._process.kill()  # it would live on while a file is open
        self._process.wait(PATIENCE)
        if self._process.stderr:
            self._process.stderr.close()

    @property
    def unsynced(self) -> int:
        """Bytes that a power loss would lose now; after one, those that it lost."""
        return int(os.getxattr(self.mount, UNSYNCED))

    @property
    def synced(self) -> float:
        """When (s, monotonic) the last fsync began: what was written before is safe."""
        return float(os.getxattr(self.mount, SYNCED))

    def fill(self) -> None:
        """Have no room from now on."""
        os.setxattr(self.mount, ROOM, b"none")

    def make_room(self) -> None:
        """Have as much as the disk that this one is kept on."""
        os.setxattr(self.mount, ROOM, b"some")

    def lose_power(self) -> int:
        """Forget what was not fsynced, and serve nothing more. Returns how many bytes were lost."""
        os.setxattr(self.mount, POWER, b"off")
        return self.unsynced
