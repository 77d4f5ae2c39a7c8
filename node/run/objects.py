"""Files of a node in an S3 bucket. Apart from `blobs`, so that a process that has none does not load what S3 needs."""

from node.artifacts.blobs.interface import BlobMissing, BlobUnavailable
from node.artifacts.blobs.objects import Objects
from node.config import Settings

__all__ = ["BlobMissing", "BlobUnavailable", "Objects", "objects_at"]


def objects_at(settings: Settings, url: str) -> Objects:
    """The files below a place in an S3 bucket, with the credentials of the settings. Raises ValueError."""
    return Objects.from_aws(url, settings.aws)
