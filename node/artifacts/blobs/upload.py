"""Writes one upload to the disk. The file is locked, counted and hashed, and gets its final name only once it is whole.

`disk` says which files a store keeps and what their names mean; HTTP is in `disk_app`. Everything here blocks, so it
must be called in a thread.
"""

import errno
import fcntl
import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from node.artifacts.blobs.interface import Grant
from node.common.disk_sync import sync
from node.common.folder_lock import locked
from node.common.refusal import Refused

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class PartialUpload:
    """One upload being written: `start`, then `write` any number of times, then `finish` or `abort`.

    Only one of the methods runs at a time, so that a cancelled request can abort while a thread still works; calls
    after an abort are refused. All raise Refused `blob.…` or OSError.
    """

    def __init__(self, final: Path, grant: Grant, reserve: int) -> None:
        self._final = final
        self._path = partial_file(final)
        self._grant = grant
        self._reserve = reserve
        self._size = 0
        self._hash = sha256()
        self._lock = threading.Lock()
        self._fd: int | None = None
        self._aborted = False

    def start(self) -> None:
        """Begin, unless something was or is being uploaded under this id, or there is no space for it."""
        with self._lock, _full_disk_refused():
            if self._aborted:
                raise Refused("blob.gone")
            directory = self._final.parent
            if not directory.is_dir():
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                sync(directory.parent)
            self._fd = lock_file(self._path)
            # Only the writer that has the lock creates the final file, so what is checked here stays true.
            if gone_mark(self._final).exists():
                raise Refused("blob.gone")
            if self._final.exists():
                raise Refused("blob.uploaded")
            os.ftruncate(self._fd, 0)
            with locked(directory.parent, wait=True):  # of two uploads that do not both fit, one gets the space
                _allocate(self._fd, self._grant.byte_size, self._reserve)

    def write(self, data: bytes) -> None:
        """Append `data`, unless the upload would then have more bytes than the grant."""
        with self._lock, _full_disk_refused():
            fd = self._open_file()
            self._size += len(data)
            if self._size > self._grant.byte_size:
                raise Refused("blob.size")
            self._hash.update(data)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]

    def finish(self) -> None:
        """Give the file its final name if it is what the grant says. By then its bytes are on the disk."""
        with self._lock, _full_disk_refused():
            fd = self._open_file()
            if self._size != self._grant.byte_size:
                raise Refused("blob.size")
            if self._hash.hexdigest() != self._grant.digest_sha256:
                raise Refused("blob.digest")
            os.fsync(fd)
            try:
                self._path.rename(self._final)
            except FileNotFoundError:  # the artifact was deleted in the meantime
                raise Refused("blob.gone") from None
            sync(self._final.parent)
            self._close()
            if gone_mark(self._final).exists():
                self._final.unlink(missing_ok=True)
                raise Refused("blob.gone")

    def abort(self) -> None:
        """Remove what was written. Does nothing after `finish`."""
        with self._lock:
            self._aborted = True
            if self._fd is not None:
                self._path.unlink(missing_ok=True)  # while it is locked: afterwards it may be another writer's
                self._close()

    def _open_file(self) -> int:
        if self._fd is None:
            raise Refused("blob.gone")
        return self._fd

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _allocate(fd: int, size: int, reserve: int) -> None:
    """Allocate the whole file at once, so that a full disk does not stop an upload that has started.

    Where the file system cannot do that, the write that finds the disk full ends the upload. Raises Refused
    `blob.full`, OSError.
    """
    try:
        if sys.platform == "linux":
            os.posix_fallocate(fd, 0, size)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            os.ftruncate(fd, 0)
            raise
    space = os.fstatvfs(fd)
    if space.f_bavail * space.f_frsize < reserve:
        os.ftruncate(fd, 0)
        raise Refused("blob.full")


@contextmanager
def _full_disk_refused() -> Generator[None]:
    """Raise Refused `blob.full` for the errors of a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise Refused("blob.full") from error
        raise


def partial_file(final: Path) -> Path:
    """Return the file in which an upload is written until it is whole."""
    return final.with_name(f"{final.name}.part")


def gone_mark(final: Path) -> Path:
    """Return the empty file that keeps a deleted id from being uploaded again."""
    return final.with_name(f"{final.name}.gone")


def lock_file(path: Path) -> int:
    """Lock a file, creating it if needed. Returns its descriptor. Raises Refused `blob.busy` if the file is locked."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same(fd, path):
                return fd
        except BlockingIOError:
            os.close(fd)
            raise Refused("blob.busy") from None
        except OSError:
            os.close(fd)
            raise
        os.close(fd)  # another writer renamed or removed it between `open` and `flock`


def _same(fd: int, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(fd), path.stat())
    return False
