"""The two keys of a node, RELAY_SECRET and RELAY_SIGNING_KEY. A key that is not given is made once and then kept in the
data directory.

Every web and worker process of a node, on every host, must have the same two.
"""

import base64
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from node.common.disk_sync import sync
from node.config import ConfigError, Settings
from node.config.sources import FILE_SUFFIX
from node.run.data_directory import unwritable
from node.sign.node_key import NodeKey

SECRET, SIGNING_KEY = "secret", "signing-key"
"""Names of the files in which the keys are kept."""

SECRET_BYTES = 32
"""Random bytes of a secret that is made here: the output length of HMAC-SHA256 (RFC 2104 §3)."""

MIN_SECRET_LENGTH = 32
"""Shortest secret, in characters: 128 random bits in hexadecimal, too many to guess."""

MIN_DIFFERENT = 8
"""Fewest different characters in a secret. Of random hexadecimal values of MIN_SECRET_LENGTH, one in 25 million has
fewer."""


def environment(settings: Settings) -> dict[str, str]:
    """Return RELAY_SECRET and RELAY_SIGNING_KEY for the processes of this node; make them if there are none.

    Raises ConfigError if they cannot be kept in the data directory, or if the secret can be guessed.
    """
    keys = {
        "RELAY_SECRET": settings.secret or _kept(settings.data_dir / SECRET, _new_secret),
        "RELAY_SIGNING_KEY": settings.signing_key or _kept(settings.data_dir / SIGNING_KEY, _new_signing_key),
    }
    check_secret(settings)
    return keys | {f"{name}{FILE_SUFFIX}": "" for name in keys}  # a child gets the keys, not the files


def check_secret(settings: Settings) -> None:
    """Raise ConfigError if somebody with one token could guess the secret, given or kept.

    It is no error if there is no secret yet.
    """
    source, secret = _given_or_kept(settings.secret, "RELAY_SECRET", settings.data_dir / SECRET)
    if source and (len(secret) < MIN_SECRET_LENGTH or len(set(secret)) < MIN_DIFFERENT or _repeats(secret)):
        raise ConfigError(
            f"{source} can be guessed: use at least {MIN_SECRET_LENGTH} random characters, "
            "such as those that `openssl rand -base64 32` prints"
        )


def check_signing_key(settings: Settings) -> None:
    """Raise ConfigError if the signing key, given or kept, is not a key. It is no error if there is none yet."""
    source, text = _given_or_kept(settings.signing_key, "RELAY_SIGNING_KEY", settings.data_dir / SIGNING_KEY)
    try:
        if source:
            NodeKey.parse(text)
    except ValueError as error:
        raise ConfigError(f"{source}: {error}") from error


def files_in_use(settings: Settings) -> Iterator[Path]:
    """Yield the files whose keys this node uses. Raises OSError.

    A file whose key differs from the setting is not in use: it is older, or was made by a start without the setting.
    """
    for name, given in ((SECRET, settings.secret), (SIGNING_KEY, settings.signing_key)):
        path = settings.data_dir / name
        with suppress(FileNotFoundError):
            if path.read_bytes().strip() == given.encode() or not given:
                yield path


def known_secret(settings: Settings) -> str:
    """Return the secret, given or kept; empty if there is none here, as for an operator's command on another host."""
    return _given_or_kept(settings.secret, "RELAY_SECRET", settings.data_dir / SECRET)[1]


def _given_or_kept(given: str, name: str, kept: Path) -> tuple[str, str]:
    """Return the source of a key, and the key; both are empty if there is none, or if its file is not readable."""
    if given:
        return name, given
    return (str(kept), _read(kept)) if os.access(kept, os.R_OK) else ("", "")


def _repeats(secret: str) -> bool:
    """Return whether the secret is a shorter text, repeated."""
    return any(secret[length:] == secret[:-length] for length in range(1, len(secret) // 2 + 1))


def _new_secret() -> str:
    return base64.b64encode(os.urandom(SECRET_BYTES)).decode()


def _new_signing_key() -> str:
    return NodeKey.generate().secret


def _kept(path: Path, make: Callable[[], str]) -> str:
    """Return the content of the file; if there is no such file, first create it with what `make` returns.

    The file appears whole or not at all, and processes that start at the same moment read the same one. It is synced
    to disk before it is used: all issued tokens become worthless if the secret is lost.
    """
    try:
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Created with mode 0600. Unbuffered: on a full disk, bytes left in a buffer would prevent its removal.
            with tempfile.NamedTemporaryFile("wb", buffering=0, dir=path.parent, prefix=path.name) as new:
                new.write(make().encode())
                os.fsync(new.fileno())
                with suppress(FileExistsError):  # another process was faster
                    path.hardlink_to(new.name)
            sync(path.parent)  # the bytes are on disk, but the name may not be
    except OSError as error:
        raise unwritable(ConfigError, f"{path} cannot be written", error) from error
    return _read(path)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}; run this command as the user who owns RELAY_DATA_DIR"
        ) from error
