"""Keeps a secret of 32 bytes in a file that only its owner may read."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp

FOR_OTHERS = 0o077  # permission bits of group and others
LENGTH = 32  # bytes


def kept_in(path: Path | str, make: Callable[[], bytes]) -> bytes:
    """Return the secret in a file. If there is no file, create it with the secret that `make` returns.

    Raises PermissionError if others may read the file, ValueError if it does not have such a secret.
    """
    file = Path(path)
    if file.is_dir():
        raise ValueError(f"{file} is a directory")
    if not file.exists():
        _keep(file, make())
    if os.name == "posix" and file.stat().st_mode & FOR_OTHERS:
        raise PermissionError(f"others may read {file}: run chmod 600 {file}")
    secret = file.read_bytes()
    if len(secret) != LENGTH:
        raise ValueError(f"{file} does not hold a key of {LENGTH} bytes")
    return secret


def _keep(file: Path, secret: bytes) -> None:
    """Create the file atomically, so that nobody reads half of it. If several processes try at once, the first wins."""
    try:
        handle, name = mkstemp(prefix=f".{file.name}.", dir=file.parent)
    except OSError as wrong:  # the error names a temporary file that the caller does not know
        raise OSError(wrong.errno, wrong.strerror, str(file)) from None
    try:
        with os.fdopen(handle, "wb") as made:
            made.write(secret)
            made.flush()
            os.fsync(handle)
        with suppress(FileExistsError):
            os.link(name, file)
    finally:
        Path(name).unlink()
