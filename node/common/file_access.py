"""What this user may see and write in the file system."""

import os
from pathlib import Path


def is_there(path: Path) -> bool:
    """Whether this user can see anything there. `Path.exists` raises PermissionError below a directory of another's."""
    return os.access(path, os.F_OK)


def existing(path: Path) -> Path:
    """An absolute path, or the nearest one above it at which this user can see anything."""
    return next(each for each in (path, *path.parents) if is_there(each))


def is_writable(directory: Path) -> bool:
    """Whether this is a directory in which this user can create files."""
    return directory.is_dir() and os.access(directory, os.W_OK | os.X_OK)
