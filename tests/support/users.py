"""What another user sees: for tests that some files of the node are private."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def shut(directory: Path) -> Generator[None]:
    """Close the directory to other users, and drop root, which could still read it, until the end of the block."""
    mode, user = directory.stat().st_mode, os.geteuid()
    directory.chmod(0)
    if user == 0:
        os.setresuid(NOBODY, NOBODY, user)
    try:
        yield
    finally:
        if user == 0:
            os.setresuid(user, user, user)
        directory.chmod(mode)
