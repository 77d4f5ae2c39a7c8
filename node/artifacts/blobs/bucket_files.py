"""Named files in an S3 bucket, for backups: put, get, delete, list.

Every upload is signed with the SHA-256 of its bytes, so the service keeps exactly these bytes or refuses them.
"""

import re
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from html import unescape

from node.artifacts.blobs.bucket import Bucket, BucketClient, bucket_from_aws
from node.artifacts.blobs.interface import BlobMissing
from node.artifacts.blobs.sigv4 import Credentials

SILENCE_SECONDS = 60.0
"""Seconds without a byte in either direction after which a request is given up."""

_NAME = re.compile(r"<Key>([^<]*)</Key>")
_NEXT = re.compile(r"<NextContinuationToken>([^<]*)</NextContinuationToken>")


class BucketFiles:
    """The files below one prefix of a bucket, by name. Every method may raise BlobUnavailable."""

    def __init__(self, bucket: Bucket, credentials: Credentials) -> None:
        self._client = BucketClient(bucket, credentials, connections=1, silence=SILENCE_SECONDS)

    @classmethod
    def from_aws(cls, url: str, aws: Mapping[str, str]) -> "BucketFiles":
        """Return the files that `s3://<bucket>/<prefix>` and the AWS_* variables name. Raises ValueError."""
        return cls(*bucket_from_aws(url, aws))

    async def put(self, name: str, content: AsyncIterator[bytes], size: int, sha256: bytes) -> None:
        """Store `size` bytes with this digest under a name."""
        headers = {"x-amz-checksum-sha256": b64encode(sha256).decode(), "Content-Length": str(size)}
        async with self._client.ask("PUT", name, headers=headers, content=content, others=()) as response:
            await response.aread()

    async def get(self, name: str) -> AsyncIterator[bytes]:
        """Yield the bytes stored under a name. Raises BlobMissing."""
        async with self._client.ask("GET", name) as response:
            if response.status == 404:
                raise BlobMissing(name)
            async for piece in response.aiter_stream():
                yield piece

    async def delete(self, name: str) -> None:
        """Delete the file with this name. A missing file is no error."""
        async with self._client.ask("DELETE", name) as response:
            await response.aread()

    async def names(self) -> Sequence[str]:
        """Return all names below the prefix."""
        found: list[str] = []
        prefix = self._client.bucket.prefix
        query = {"list-type": "2", "prefix": prefix}
        while True:
            async with self._client.ask("GET", None, query=query, others=()) as response:
                page = (await response.aread()).decode()
            found += [unescape(key).removeprefix(prefix) for key in _NAME.findall(page)]
            more = _NEXT.search(page)
            if more is None:
                return found
            query["continuation-token"] = unescape(more[1])

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()
