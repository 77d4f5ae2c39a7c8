"""A lock on a folder, which ends with its process, however that ends."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Hold the folder's lock. Processes that are forked meanwhile hold it, too. Raises OSError if somebody holds it."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(fd)
