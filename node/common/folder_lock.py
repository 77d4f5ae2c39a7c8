"""A lock on a folder, which is released at the latest when the process ends, for whatever reason."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(folder: Path, *, wait: bool = False) -> Generator[None]:
    """Hold the folder's lock. Processes that are forked meanwhile hold it, too.

    If another thread or process holds the lock, wait for it (`wait`) or raise OSError.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(fd)
