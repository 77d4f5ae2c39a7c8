"""Files that other users cannot read, not even while they are written."""

import os
from pathlib import Path
from typing import BinaryIO


def open_private(path: Path) -> BinaryIO:
    """Create a file of mode 0600, less what the umask removes, for writing. Raises FileExistsError."""
    return open(path, "xb", opener=_private)


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)
