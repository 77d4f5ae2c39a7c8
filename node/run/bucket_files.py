"""Files of a node in an S3 bucket. Not in `blobs`, so that a process without a bucket does not load what S3 needs."""

from node.artifacts.blobs.bucket_files import BucketFiles
from node.artifacts.blobs.interface import BlobMissing, BlobUnavailable
from node.config import Settings

__all__ = ["BlobMissing", "BlobUnavailable", "BucketFiles", "bucket_files_at"]


def bucket_files_at(settings: Settings, url: str) -> BucketFiles:
    """Open the files below a place in an S3 bucket, with the credentials of the settings. Raises ValueError."""
    return BucketFiles.from_aws(url, settings.aws)
