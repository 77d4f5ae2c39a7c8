"""What this user may see and write in the file system."""

import os
from pathlib import Path


def is_there(path: Path) -> bool:
    """Return whether something exists at `path` that this user can see.

    `Path.exists` raises PermissionError below a directory that the user may not enter.
    """
    return os.access(path, os.F_OK)


def existing(path: Path) -> Path:
    """Return an absolute path, or its nearest parent, at which something exists that this user can see."""
    return next(each for each in (path, *path.parents) if is_there(each))


def is_writable(directory: Path) -> bool:
    """Return whether this is a directory in which this user can create files."""
    return directory.is_dir() and os.access(directory, os.W_OK | os.X_OK)
