"""Which blob store a node uses."""

from pathlib import Path

import pytest

from node.artifacts.blobs.disk import DiskStore
from node.artifacts.blobs.interface import BlobStore
from node.artifacts.blobs.s3 import S3Store
from node.config import ConfigError, Settings
from node.run.blobs import blobs_of
from tests.artifacts.blobs import SECRET

AWS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}


def opened(blob_url: str) -> BlobStore:
    return blobs_of(Settings(blob_url=blob_url, data_dir=Path("data"), secret=SECRET, aws=AWS))


@pytest.mark.parametrize(
    ("blob_url", "directory"),
    [("", "data/blobs"), ("file:///var/lib/relay/blobs", "/var/lib/relay/blobs"), ("file:///a%20b", "/a b")],
)
def test_files_are_the_default(blob_url: str, directory: str) -> None:
    store = opened(blob_url)
    assert isinstance(store, DiskStore) and store.directory == Path(directory)


def test_a_bucket_is_used_where_one_is_named() -> None:
    assert isinstance(opened("s3://bucket/prefix"), S3Store)


@pytest.mark.parametrize("blob_url", ["/var/blobs", "file://host/x", "file:", "file:///", "gs://bucket", "s3:bucket"])
def test_what_is_neither_is_refused_with_what_to_write(blob_url: str) -> None:
    expected = "not s3://" if blob_url.startswith("s3:") else "neither file:///<absolute path> nor s3://"
    with pytest.raises(ConfigError, match=f"RELAY_BLOB_URL: .* is {expected}"):
        opened(blob_url)
