"""A blob store on any S3-compatible service: presigned URLs for clients, signed requests for the node.

The bytes go between client and bucket; the node only asks what is there, reads it once to verify it,
and deletes it. A presigned PUT signs Content-Length, Content-Type and the SHA-256, so the service
itself refuses other bytes. Signing is in `sigv4`.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from urllib.parse import parse_qs, unquote, urlsplit

import httpcore2
import msgspec

from node.artifacts.blob import BlobMissing, BlobUnavailable, Grant, Stat, attachment, blob_id, digest_base64
from node.artifacts.sigv4 import Key, Target, authorize, presign

CONNECT_SECONDS = 3.0
READ_SECONDS = 10.0
"""Seconds without a byte; an object of 100 MiB may take longer as a whole."""

CONNECTIONS = 16
"""Per process. Requests beyond it wait for READ_SECONDS at most."""

_TIMEOUT = {"connect": CONNECT_SECONDS, "read": READ_SECONDS, "write": READ_SECONDS, "pool": READ_SECONDS}
_UNREACHABLE = (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError)


class Bucket(msgspec.Struct, frozen=True):
    """Where objects are: the address that serves the bucket, and what precedes an id in the path."""

    origin: str
    path: str

    @classmethod
    def parse(cls, blob_url: str, region: str, endpoint_url: str) -> "Bucket":
        """Read RELAY_BLOB_URL: `s3://<bucket>[/<prefix>][?style=path|virtual]`.

        Without an endpoint it is AWS. An own endpoint is addressed by path (`endpoint/bucket/…`), AWS
        by virtual host (`bucket.s3.…`), unless `style` says otherwise. Raises ValueError.
        """
        url = urlsplit(blob_url)
        options = {name: values[-1] for name, values in parse_qs(url.query).items()}
        style = options.pop("style", "path" if endpoint_url else "virtual")
        endpoint = urlsplit(endpoint_url or f"https://s3.{region}.amazonaws.com")
        if url.scheme != "s3" or not url.netloc or options or style not in ("path", "virtual"):
            raise ValueError(f"{blob_url!r} is not s3://<bucket>/<prefix>, with ?style=path or ?style=virtual")
        if endpoint.scheme not in ("http", "https") or not endpoint.hostname or endpoint.path.strip("/"):
            raise ValueError(f"AWS_ENDPOINT_URL {endpoint_url!r} is not http(s)://<host>[:<port>]")
        prefix = unquote(url.path).strip("/")
        inside = f"/{prefix}/" if prefix else "/"
        if style == "path":
            return cls(f"{endpoint.scheme}://{endpoint.netloc}", f"/{url.netloc}{inside}")
        return cls(f"{endpoint.scheme}://{url.netloc}.{endpoint.netloc}", inside)


class S3Store:
    """A BlobStore on an S3 bucket. `clock` answers the time requests are signed with."""

    def __init__(self, bucket: Bucket, key: Key, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._bucket = bucket
        self._key = key
        self._clock = clock
        self._pool = httpcore2.AsyncConnectionPool(max_connections=CONNECTIONS, keepalive_expiry=5.0)

    def upload_headers(self, grant: Grant) -> Mapping[str, str]:
        return {"Content-Type": grant.media_type, "x-amz-checksum-sha256": digest_base64(grant.digest_sha256)}

    async def upload_url(self, grant: Grant, expires: int) -> str:
        headers = {**self.upload_headers(grant), "Content-Length": str(grant.byte_size)}
        return presign(self._key, self._object("PUT", grant.id), headers, {}, expires, self._clock())

    async def content_url(self, grant: Grant, filename: str | None, expires: int) -> str:
        answered = {
            "response-content-type": grant.media_type,
            "response-content-disposition": attachment(filename or grant.id),
        }
        return presign(self._key, self._object("GET", grant.id), {}, answered, expires, self._clock())

    async def stat(self, artifact_id: str) -> Stat | None:
        async with self._request("HEAD", artifact_id, found=200) as response:
            if response is None:
                return None
            length = dict(response.headers).get(b"content-length", b"")
        if not length.isdigit():
            raise BlobUnavailable("the blob store answered HEAD without Content-Length")
        return Stat(int(length))

    async def read(self, artifact_id: str) -> AsyncIterator[bytes]:
        async with self._request("GET", artifact_id, found=200) as response:
            if response is None:
                raise BlobMissing(artifact_id)
            async for chunk in response.aiter_stream():
                yield chunk

    async def delete(self, artifact_id: str) -> None:
        async with self._request("DELETE", artifact_id, found=204):
            return

    async def free_bytes(self) -> int | None:
        return None

    async def sweep(self) -> int:
        return 0  # an interrupted PUT leaves nothing in a bucket

    async def close(self) -> None:
        await self._pool.aclose()

    def _object(self, method: str, artifact_id: str) -> Target:
        return Target(method, self._bucket.origin, self._bucket.path + blob_id(artifact_id))

    @asynccontextmanager
    async def _request(self, method: str, artifact_id: str, found: int) -> AsyncGenerator[httpcore2.Response | None]:
        """The response to a request about an object; None if it is not there."""
        target = self._object(method, artifact_id)
        headers = authorize(self._key, target, {}, self._clock())
        try:
            async with self._pool.stream(
                method, target.url(), headers=headers, extensions={"timeout": _TIMEOUT}
            ) as response:
                if response.status not in (found, 404):
                    raise BlobUnavailable(f"the blob store answered {method} with {response.status}")
                yield response if response.status == found else None
        except _UNREACHABLE as error:
            raise BlobUnavailable(f"the blob store cannot be reached: {error!r}") from error
