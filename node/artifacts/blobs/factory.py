"""Which blob store a node uses. Nothing else knows both kinds."""

from collections.abc import Mapping
from pathlib import Path

from node.artifacts.blobs.disk import DiskStore
from node.artifacts.blobs.interface import BlobStore
from node.config.values import directory_of


def open_store(
    blob_url: str, *, data_dir: Path, base_url: str, secret: str, aws: Mapping[str, str], reserve: int
) -> BlobStore:
    """The store that RELAY_BLOB_URL names. Raises ValueError, which says what to write instead.

    `aws` holds those of `bucket.AWS_VARIABLES` that are set. A `DiskStore` needs a `DiskApp` in front of it.
    """
    if blob_url.startswith("s3:"):
        from node.artifacts.blobs.s3 import S3Store  # noqa: PLC0415 - a web process without a bucket starts sooner

        return S3Store.from_aws(blob_url, aws)
    return DiskStore(directory_of(blob_url, data_dir), base_url, secret, reserve)
