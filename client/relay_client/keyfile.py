"""A secret of 32 bytes in a file that only its owner may read."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp

FOR_OTHERS = 0o077  # bits of a mode that let group or world in
LENGTH = 32  # bytes


def kept_in(path: Path | str, make: Callable[[], bytes]) -> bytes:
    """The secret in the file, which is created if there is none. Raises PermissionError if others may read it,
    ValueError if it is no such secret.
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
    """Create the file as a whole, so that nobody reads half of it; of several processes at once, the first wins."""
    try:
        handle, name = mkstemp(prefix=f".{file.name}.", dir=file.parent)
    except OSError as wrong:  # which names a file that nobody asked for
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
