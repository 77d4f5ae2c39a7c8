"""A secret of 32 bytes in a file that its owner alone may read."""

import os
from collections.abc import Callable
from pathlib import Path

FOR_OTHERS = 0o077  # bits of a mode that let group or world in
LENGTH = 32  # bytes


def kept_in(path: Path | str, make: Callable[[], bytes]) -> bytes:
    """What is in the file, which is made if there is none. PermissionError if others may read it."""
    file = Path(path)
    try:
        with os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as made:
            made.write(make())
    except FileExistsError:
        if os.name == "posix" and file.stat().st_mode & FOR_OTHERS:
            raise PermissionError(f"others may read {file}: chmod 600 {file}") from None
    secret = file.read_bytes()
    if len(secret) != LENGTH:
        raise ValueError(f"{file} holds no key of {LENGTH} bytes")
    return secret
