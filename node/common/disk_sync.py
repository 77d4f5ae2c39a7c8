"""Flushes files to disk (fsync). Before that, a power failure may lose files and their names."""

import errno
import os
from pathlib import Path

NOT_POSSIBLE = frozenset({errno.EACCES, errno.EINVAL, errno.ENOTSUP})
"""Error numbers for directories that this user may not read, or that the file system cannot sync."""


def sync(path: Path) -> None:
    """Flush a file, or the names in a directory, to disk. A directory that cannot be flushed is skipped.

    Raises OSError.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in NOT_POSSIBLE or not path.is_dir():
            raise


def sync_all(directory: Path) -> None:
    """`sync` a directory and everything below it. Faster once after all files are written than after each file."""
    for path in (*directory.rglob("*"), directory):
        sync(path)
