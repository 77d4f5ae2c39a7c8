"""A disk that can be full, and that forgets at a power loss what was not fsynced: a mount of `losing_filesystem.py`."""

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
"""Extended attribute of the root: number of bytes that a power loss would lose now."""

SYNCED = "user.synced"
"""Extended attribute of the root: when (s, monotonic) the last fsynced write began."""

POWER = "user.power"
"""Extended attribute of the root: setting it to `off` causes the power loss."""

ROOM = "user.room"
"""Extended attribute of the root: while it is `none`, nothing can be written."""


def without_fuse() -> str:
    """Return why such a disk cannot be mounted here; empty if it can."""
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
        self._process.kill()  # otherwise it would live on while a file is open
        self._process.wait(PATIENCE)
        if self._process.stderr:
            self._process.stderr.close()

    @property
    def unsynced(self) -> int:
        """Return the bytes that a power loss would lose now or, after one, the bytes that it lost."""
        return int(os.getxattr(self.mount, UNSYNCED))

    @property
    def synced(self) -> float:
        """Return when (s, monotonic) the last fsynced write began. Everything written before that is safe."""
        return float(os.getxattr(self.mount, SYNCED))

    def fill(self) -> None:
        """Leave no free space from now on."""
        os.setxattr(self.mount, ROOM, b"none")

    def make_room(self) -> None:
        """Have as much space as the disk that holds this one."""
        os.setxattr(self.mount, ROOM, b"some")

    def lose_power(self) -> int:
        """Forget what was not fsynced, and serve nothing more. Returns how many bytes were lost."""
        os.setxattr(self.mount, POWER, b"off")
        return self.unsynced
