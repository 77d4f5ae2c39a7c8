"""Where the bytes of artifacts are, according to the settings."""

from pathlib import Path

from node.artifacts.blobs.factory import open_store
from node.artifacts.blobs.interface import BlobStore, BlobUnavailable
from node.config import ConfigError, Settings
from node.config.values import directory_of


def blobs_of(settings: Settings) -> BlobStore:
    """The blob store that the settings name. Raises ConfigError."""
    try:
        return open_store(
            settings.blob_url,
            data_dir=settings.data_dir,
            base_url=settings.public_url,
            secret=settings.secret,
            aws=settings.aws,
            reserve=settings.blob_reserve,
        )
    except ValueError as error:
        raise ConfigError(f"RELAY_BLOB_URL: {error}") from error


def blob_directory(settings: Settings) -> Path | None:
    """The directory of the embedded blob store; None if the bytes are in S3. Raises ConfigError."""
    if settings.blob_url.startswith("s3:"):
        return None
    try:
        return directory_of(settings.blob_url, settings.data_dir)
    except ValueError as error:
        raise ConfigError(f"RELAY_BLOB_URL: {error}") from error


async def try_blobs(settings: Settings) -> None:
    """Write, read and delete a few bytes. Raises ConfigError that says what does not work."""
    blobs = blobs_of(settings)
    try:
        await blobs.check()
    except BlobUnavailable as unavailable:
        raise ConfigError(f"{settings.blob_url or blob_directory(settings)}: {unavailable}") from unavailable
    finally:
        await blobs.close()
