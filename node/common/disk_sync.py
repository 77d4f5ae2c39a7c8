"""Having the disk keep what was written: until then a power failure loses files, and the names of files."""

import errno
import os
from pathlib import Path

NOT_POSSIBLE = frozenset({errno.EACCES, errno.EINVAL, errno.ENOTSUP})
"""Errors of directories that this user may not read, or whose file system has no such call."""


def sync(path: Path) -> None:
    """Return once the disk has a file, or the names in a directory, where it can be had. Raises OSError."""
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
    """`sync` a directory and everything below it, after it was written: that is faster than one file at a time."""
    for path in (*directory.rglob("*"), directory):
        sync(path)
