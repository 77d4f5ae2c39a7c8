"""The two keys of a node that no operator has to write: made once, kept in the data directory.

Every web and worker process of a node, on every host, must have the same two.
"""

import base64
import os
import tempfile
from pathlib import Path

from node.config import ConfigError, Settings

KEY_BYTES = 32  # HMAC-SHA256 takes it whole; an ed25519 seed is that long (RFC 8032 §5.1.5)
SEED_PREFIX = "whsk_"  # as in Standard Webhooks' secret keys


def environment(settings: Settings) -> dict[str, str]:
    """RELAY_SECRET and RELAY_SIGNING_KEY for the processes of this node, made now if there are none.

    Raises ConfigError if the data directory does not let them be kept.
    """
    return {
        "RELAY_SECRET": settings.secret or _kept(settings.data_dir / "secret"),
        "RELAY_SIGNING_KEY": settings.signing_key or _kept(settings.data_dir / "signing-key", SEED_PREFIX),
    }


def _kept(path: Path, prefix: str = "") -> str:
    """What the file holds; `prefix` and 32 random bytes in base64 if it is not there yet.

    The file appears whole or not at all, and whoever starts at the same moment reads the same one.
    """
    try:
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=path.name) as new:  # made with mode 0600
                new.write(prefix + base64.b64encode(os.urandom(KEY_BYTES)).decode())
                new.flush()
                os.fsync(new.fileno())
                _link(Path(new.name), path)
        return path.read_text().strip()
    except OSError as error:
        raise ConfigError(f"{path} cannot be kept: {error.strerror}; make RELAY_DATA_DIR writable") from error


def _link(new: Path, path: Path) -> None:
    try:
        path.hardlink_to(new)
    except FileExistsError:
        return
