"""Files in an S3 bucket under names of their own, for backups: put, got, listed, deleted.

Every upload is signed with the SHA-256 of its bytes, so the service keeps just these or refuses them.
"""

import re
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from html import unescape

import httpcore2

from node.artifacts.blobs.interface import BlobMissing, BlobUnavailable
from node.artifacts.blobs.s3 import CONNECT_SECONDS, UNREACHABLE, Bucket, bucket_from_aws
from node.artifacts.blobs.sigv4 import Credentials, SignedRequest, presign

SILENCE_SECONDS = 60.0
"""How long no byte may move, either way, before a request is given up."""

SIGNED_SECONDS = 3600
"""How long a signed request is valid; it has to begin within that time."""

_TIMEOUT = {"connect": CONNECT_SECONDS, "read": SILENCE_SECONDS, "write": SILENCE_SECONDS, "pool": SILENCE_SECONDS}
_NAME = re.compile(r"<Key>([^<]*)</Key>")
_NEXT = re.compile(r"<NextContinuationToken>([^<]*)</NextContinuationToken>")


class Objects:
    """All names below one prefix of a bucket. Every method may raise BlobUnavailable."""

    def __init__(
        self, bucket: Bucket, credentials: Credentials, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._bucket = bucket
        self._credentials = credentials
        self._clock = clock
        self._pool = httpcore2.AsyncConnectionPool(max_connections=1)

    @classmethod
    def from_aws(cls, url: str, aws: Mapping[str, str]) -> "Objects":
        """Those that `s3://<bucket>/<prefix>` and the AWS_* variables name. Raises ValueError."""
        return cls(*bucket_from_aws(url, aws))

    async def put(self, name: str, content: AsyncIterator[bytes], size: int, sha256: bytes) -> None:
        """Keep `size` bytes that have this digest under a name."""
        headers = {"x-amz-checksum-sha256": b64encode(sha256).decode(), "Content-Length": str(size)}
        async for _ in self._answer("PUT", name, headers=headers, content=content):
            pass

    async def get(self, name: str) -> AsyncIterator[bytes]:
        """The bytes of a name. Raises BlobMissing."""
        async for piece in self._answer("GET", name):
            yield piece

    async def delete(self, name: str) -> None:
        """Remove a name; nothing to remove is no error."""
        try:
            async for _ in self._answer("DELETE", name):
                pass
        except BlobMissing:
            pass

    async def names(self) -> Sequence[str]:
        """All names below the prefix."""
        found: list[str] = []
        query = {"list-type": "2", "prefix": self._bucket.prefix}
        while True:
            page = b"".join([piece async for piece in self._answer("GET", None, query=query)]).decode()
            found += [unescape(key).removeprefix(self._bucket.prefix) for key in _NAME.findall(page)]
            more = _NEXT.search(page)
            if more is None:
                return found
            query["continuation-token"] = unescape(more[1])

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.aclose()

    async def _answer(
        self,
        method: str,
        name: str | None,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        content: AsyncIterator[bytes] | None = None,
    ) -> AsyncIterator[bytes]:
        """What the bucket answers to one request; `name` None is the bucket itself. Raises BlobMissing."""
        path = self._bucket.path if name is None else self._bucket.path + self._bucket.prefix + name
        url = presign(
            self._credentials,
            SignedRequest(method, self._bucket.origin, path),
            headers=headers or {},
            query=query or {},
            seconds=SIGNED_SECONDS,
            now=self._clock(),
        )
        try:
            async with self._pool.stream(
                method, url, headers=list((headers or {}).items()), content=content, extensions={"timeout": _TIMEOUT}
            ) as response:
                if response.status == 404:
                    raise BlobMissing(name or path)
                if response.status not in (200, 201, 204):
                    raise BlobUnavailable(f"the bucket answered {method} with {response.status}")
                async for piece in response.aiter_stream():
                    yield piece
        except UNREACHABLE as error:
            raise BlobUnavailable(f"the bucket cannot be reached: {error!r}") from error
