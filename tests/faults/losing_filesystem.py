"""A FUSE file system over a directory that forgets at a power loss what was not fsynced.

The data that a write replaces is remembered until the file is fsynced. When the power goes, it is put back, newest
first, so every file is left as of its last fsync: the harshest disk that still honours fsync. Changes of names (create,
rename, unlink) are durable at once, as on a journaling file system that orders them.

`python -m tests.faults.losing_filesystem <backing> <mount>` serves one mount.
"""

import errno
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.faults.losing_disk import POWER, ROOM, SYNCED, UNSYNCED

mfusepy: Any = import_module("mfusepy")
"""Imported by name, because it loads libfuse, which is not on every machine where these files are type-checked."""

STAT = ("st_atime", "st_ctime", "st_gid", "st_ino", "st_mode", "st_mtime", "st_nlink", "st_size", "st_uid")


class _Disk(mfusepy.Operations):
    use_ns = False

    def __init__(self, backing: Path) -> None:
        self._backing = str(backing)
        self._undo: dict[int, list[tuple[int, int, bytes, int]]] = {}
        """Changes since the last fsync by inode: descriptor, offset, replaced bytes and previous file size of each."""
        self._lost = 0
        self._written: dict[int, float] = {}
        """Time when the last write began, by inode."""
        self._synced = 0.0
        self._on = True
        self._full = False

    def _path(self, path: str) -> str:
        if not self._on:
            raise mfusepy.FuseOSError(errno.EIO)
        return self._backing + path

    def _remember(self, fh: int, offset: int, length: int) -> None:
        found = os.fstat(fh)
        entry = (os.dup(fh), offset, os.pread(fh, length, offset), found.st_size)
        self._undo.setdefault(found.st_ino, []).append(entry)

    def _lose(self) -> None:
        self._on = False
        for changes in self._undo.values():
            for fd, offset, before, size in reversed(changes):
                self._lost += max(0, os.fstat(fd).st_size - size)
                os.pwrite(fd, before, offset)
                os.ftruncate(fd, size)
                os.close(fd)
        self._undo.clear()

    def getxattr(self, path: str, name: str, position: int = 0) -> bytes:
        if name == SYNCED:
            return repr(self._synced).encode()
        if name != UNSYNCED:
            raise mfusepy.FuseOSError(errno.ENODATA)
        if not self._on:
            return str(self._lost).encode()
        grown = sum(os.fstat(changes[0][0]).st_size - changes[0][3] for changes in self._undo.values())
        return str(grown).encode()

    def setxattr(self, path: str, name: str, value: bytes, options: int, position: int = 0) -> int:
        if name == ROOM:
            self._full = value == b"none"
        elif (name, value) == (POWER, b"off"):
            self._lose()
        else:
            raise mfusepy.FuseOSError(errno.ENOTSUP)
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self._backing)
        free = 0 if self._full else found.f_bavail
        return {"f_bsize": found.f_bsize, "f_frsize": found.f_frsize, "f_blocks": found.f_blocks, "f_bavail": free}

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        self._path(path)
        inode = os.fstat(fh).st_ino
        for fd, *_ in self._undo.pop(inode, []):
            os.close(fd)
            # Not the time of the fsync: Redis continues to answer between the last write and a background fsync.
            self._synced = self._written.get(inode, self._synced)
        return 0

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        self._path(path)
        if self._full:
            raise mfusepy.FuseOSError(errno.ENOSPC)
        self._written[os.fstat(fh).st_ino] = time.monotonic()
        self._remember(fh, offset, len(data))
        return os.pwrite(fh, data, offset)

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        with open(self._path(path), "rb+", buffering=0) as file:  # noqa: PTH123 - a descriptor is what we need
            size = os.fstat(file.fileno()).st_size
            self._remember(file.fileno(), length, max(0, size - length))
            os.ftruncate(file.fileno(), length)
        return 0

    def open(self, path: str, flags: int) -> int:
        # Readable as well, because the data that a write replaces is read first. Without O_APPEND, because the kernel
        # passes an append as a write at an offset.
        readable = flags & ~(os.O_APPEND | os.O_WRONLY | os.O_TRUNC) | os.O_RDWR
        return os.open(self._path(path), readable)

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        return os.open(self._path(path), os.O_RDWR | os.O_CREAT, mode)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        self._path(path)
        return os.pread(fh, size, offset)

    def release(self, path: str, fh: int) -> int:
        os.close(fh)
        return 0

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        # The root stays readable without power, so that it can be asked what was lost.
        found = os.lstat(self._backing if path == "/" else self._path(path))
        return {name: getattr(found, name) for name in STAT}

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *os.listdir(self._path(path))]  # noqa: PTH208

    def rename(self, old: str, new: str) -> int:
        Path(self._path(old)).replace(self._path(new))
        return 0

    def link(self, target: str, source: str) -> int:
        Path(self._path(target)).hardlink_to(self._path(source))
        return 0

    def unlink(self, path: str) -> int:
        Path(self._path(path)).unlink()
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        Path(self._path(path)).mkdir(mode)
        return 0

    def rmdir(self, path: str) -> int:
        Path(self._path(path)).rmdir()
        return 0

    def mknod(self, path: str, mode: int, dev: int) -> int:
        os.mknod(self._path(path), mode, dev)
        return 0

    def chmod(self, path: str, mode: int) -> int:
        Path(self._path(path)).chmod(mode)
        return 0


if __name__ == "__main__":
    mfusepy.FUSE(_Disk(Path(sys.argv[1])), sys.argv[2], foreground=True, nothreads=True, direct_io=True)
