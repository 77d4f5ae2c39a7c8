"""Checks whether the settings can be used, before anything is started: for every command on this node, and at a reload.

`node.config` has checked the form of each setting. The checks here need the code that uses a setting, or another
setting. They may look at files, but they connect to nothing, resolve no names and write nothing.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from node.common.file_access import existing, is_writable
from node.config import ConfigError, Settings, load
from node.observe import tracing
from node.run import keychain
from node.run.blobs import blob_directory, blobs_of
from node.store.address import locate


def loaded(environ: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings and `validate` them. Raises ConfigError."""
    settings = load(environ)
    validate(settings)
    return settings


def validate(settings: Settings) -> None:
    """Raise ConfigError, in one sentence, for the first setting that cannot be used."""
    for check in CHECKS:
        check(settings)


def check_paths(settings: Settings) -> None:
    """Check that paths can be looked up at all: a name may be too long, or a symbolic link may lead to itself.

    Only relative paths need the working directory, which may have been removed.
    """
    model = settings.embedding_model
    paths = {
        "RELAY_DATA_DIR": settings.data_dir,
        "RELAY_METRICS_DIR": settings.metrics_dir,
        "RELAY_BLOB_URL": blob_directory(settings),
        "RELAY_EMBEDDING_MODEL": model if os.sep in model else "",
    }
    for name, path in paths.items():
        try:
            where = Path(path or os.sep).absolute()
        except OSError as error:
            raise ConfigError(f"{name}={str(path)!r}: the working directory is gone; start from another") from error
        try:
            str(where).encode()
            where.stat()
        except UnicodeEncodeError as error:
            raise ConfigError(f"{name}: {where} is not UTF-8; choose another") from error
        except (FileNotFoundError, NotADirectoryError, PermissionError):  # whatever uses the path reports this
            pass
        except (OSError, ValueError) as error:
            reason = (isinstance(error, OSError) and error.strerror) or str(error)
            raise ConfigError(f"{name}={str(path)!r}: {reason}; choose another") from error


def check_stores(settings: Settings) -> None:
    """Check RELAY_REDIS_URL and RELAY_SEARCH_URL. No message may show their passwords."""
    for name, url in (("RELAY_REDIS_URL", settings.redis_url), ("RELAY_SEARCH_URL", settings.search_url)):
        try:
            if url:
                locate(url)
        except ValueError as error:
            raise ConfigError(f"{name}: {error}") from error


def check_blobs(settings: Settings) -> None:
    """Check RELAY_BLOB_URL, and the AWS_* variables that it needs."""
    if blob_directory(settings) is None:
        blobs_of(settings)


def check_ports(settings: Settings) -> None:
    """Check that RELAY_PORT and RELAY_ADMIN_PORT differ: different processes listen on them."""
    if settings.admin_port == settings.port:
        raise ConfigError(f"RELAY_ADMIN_PORT and RELAY_PORT are both {settings.port}: change one of them")


def check_metrics_dir(settings: Settings) -> None:
    """Check that RELAY_METRICS_DIR, where the processes write their counts, can be written to."""
    if settings.metrics_dir and not is_writable(existing(Path(settings.metrics_dir).resolve())):
        raise ConfigError(f"RELAY_METRICS_DIR={settings.metrics_dir!r} cannot be written: choose another directory")


CHECKS: tuple[Callable[[Settings], None], ...] = (
    check_paths,
    check_stores,
    check_blobs,
    check_ports,
    check_metrics_dir,
    tracing.check,
    keychain.check_secret,
    keychain.check_signing_key,
)
