"""Where the bytes of artifacts are, according to the settings."""

from pathlib import Path

from node.artifacts.blobs.disk import DiskStore
from node.artifacts.blobs.interface import BlobStore, BlobUnavailable
from node.config import ConfigError, Settings


def blobs_of(settings: Settings) -> BlobStore:
    """Return the blob store that the settings name. A `DiskStore` needs a `DiskApp` in front of it.

    Raises ConfigError.
    """
    if directory := blob_directory(settings):
        return DiskStore(directory, settings.public_url, settings.secret, settings.blob_reserve)
    from node.artifacts.blobs.s3 import S3Store  # noqa: PLC0415 - a web process without a bucket starts sooner

    try:
        return S3Store.from_aws(settings.blob_url, settings.aws)
    except ValueError as error:
        raise ConfigError(f"RELAY_BLOB_URL: {error}") from error


def blob_directory(settings: Settings) -> Path | None:
    """Return the directory of the embedded blob store; None if the bytes are in S3. Raises ConfigError."""
    try:
        return settings.blob_directory
    except ValueError as error:
        raise ConfigError(f"RELAY_BLOB_URL: {error}") from error


async def try_blobs(settings: Settings) -> None:
    """Write, read and delete a few bytes. Raises ConfigError, which says what does not work."""
    blobs = blobs_of(settings)
    try:
        await blobs.check()
    except BlobUnavailable as unavailable:
        raise ConfigError(f"{settings.blob_url or blob_directory(settings)}: {unavailable}") from unavailable
    finally:
        await blobs.close()
