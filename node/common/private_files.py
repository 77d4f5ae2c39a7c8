"""Files that no other user can read, not even while they are written."""

import os
from pathlib import Path
from typing import BinaryIO


def open_private(path: Path) -> BinaryIO:
    """A new file to write to, of mode 0600 from its first byte, or less by the umask. Raises FileExistsError."""
    return open(path, "xb", opener=_private)


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)
