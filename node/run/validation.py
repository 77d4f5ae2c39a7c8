"""Whether the settings can be used, judged before anything is started: by every command, by `check`, and by a reload.

Their form has been judged already (`node.config`). What is left takes the code that uses them, or another setting.
Nothing is opened, written or looked up here.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from node.config import ConfigError, Settings, load
from node.observe import tracing
from node.run import keychain
from node.run.blobs import blob_directory, blobs_of
from node.store.address import locate


def loaded(environ: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings, all of which can be used. Raises ConfigError."""
    settings = load(environ)
    validate(settings)
    return settings


def validate(settings: Settings) -> None:
    """Raise ConfigError, in one sentence, for the first setting that cannot be used."""
    for judge in JUDGES:
        judge(settings)


def stores(settings: Settings) -> None:
    """RELAY_REDIS_URL and RELAY_SEARCH_URL, whose passwords no message may show."""
    for name, url in (("RELAY_REDIS_URL", settings.redis_url), ("RELAY_SEARCH_URL", settings.search_url)):
        try:
            if url:
                locate(url)
        except ValueError as error:
            raise ConfigError(f"{name}: {error}") from error


def blobs(settings: Settings) -> None:
    """RELAY_BLOB_URL, and the AWS_* variables that it needs."""
    if blob_directory(settings) is None:
        blobs_of(settings)


def ports(settings: Settings) -> None:
    """RELAY_PORT and RELAY_ADMIN_PORT, on which two processes listen."""
    if settings.admin_port == settings.port:
        raise ConfigError(f"RELAY_ADMIN_PORT and RELAY_PORT are both {settings.port}: change one of them")


def metrics_dir(settings: Settings) -> None:
    """RELAY_METRICS_DIR, in which the processes leave what they count."""
    if settings.metrics_dir and not is_writable(existing(Path(settings.metrics_dir))):
        raise ConfigError(f"RELAY_METRICS_DIR={settings.metrics_dir!r} cannot be written: choose another directory")


JUDGES: tuple[Callable[[Settings], None], ...] = (
    stores,
    blobs,
    ports,
    metrics_dir,
    tracing.check,
    keychain.check_secret,
    keychain.check_signing_key,
)


def existing(path: Path) -> Path:
    """The path, or the nearest directory above it that exists."""
    place = path.resolve()
    while not place.exists():
        place = place.parent
    return place


def is_writable(place: Path) -> bool:
    """Whether this user can make files in a directory."""
    return place.is_dir() and os.access(place, os.W_OK | os.X_OK)
