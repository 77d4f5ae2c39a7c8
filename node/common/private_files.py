"""Files that other users cannot read, not even while they are written."""

import os
from pathlib import Path
from typing import BinaryIO


def open_private(path: Path) -> BinaryIO:
    """Create a file with mode 0600, less the bits in the umask, and open it for writing. Raises FileExistsError."""
    return open(path, "xb", opener=_private)


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)
