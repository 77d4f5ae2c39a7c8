"""A blob store on any S3-compatible service: presigned URLs for clients, signed requests for the node.

Large bytes go between client and bucket; the node only asks for their size, reads them once to verify them, and deletes
them. Small ones that are sent or asked for in JSON go through the node. A presigned PUT signs Content-Length,
Content-Type and the SHA-256, so that the service itself refuses other bytes, and `If-None-Match: *`, so that it takes
only the first upload. Signatures are made in `sigv4`.
"""

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from time import monotonic
from urllib.parse import parse_qs, unquote, urlsplit

import httpcore2
import msgspec

from node.artifacts.blobs.headers import attachment, digest_base64
from node.artifacts.blobs.interface import (
    PROBE,
    BlobMissing,
    BlobUnavailable,
    Grant,
    blob_id,
    probe_grant,
)
from node.artifacts.blobs.sigv4 import Credentials, SignedRequest, authorize, presign
from node.common.refusal import Refused

AWS_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL",
)
"""The standard environment of every S3 client; the first two are required."""

CONNECT_SECONDS = 3.0
READ_SECONDS = 10.0
"""Longest time without a byte; an object of 100 MiB may take longer as a whole."""

SLOWEST_RATE = 64 * 1024
"""Bytes a second, from READ_SECONDS on, below which an object that is being read is given up: the worker verifies few
at a time, and one that came byte by byte would keep a place among them for days."""

WRITE_SECONDS = 60
"""Life of the URL to which the node itself uploads small bytes."""

STORED = (200, 201)
"""Statuses of a PUT that has stored the bytes."""

MAX_CONNECTIONS = 16
"""Connections to the bucket per process. A request that finds none free waits READ_SECONDS at most."""

_TIMEOUT = {"connect": CONNECT_SECONDS, "read": READ_SECONDS, "write": READ_SECONDS, "pool": READ_SECONDS}
_OPTIONS = [(style, once) for style in ("path", "virtual") for once in ("yes", "no")]
UNREACHABLE = (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError, ssl.SSLError)
"""What httpcore2 raises if a service cannot be talked to. A TLS error after the handshake comes through it as it is."""


class Bucket(msgspec.Struct, frozen=True):
    """Where objects are: the address that serves the bucket, the bucket's path there, and what precedes an id."""

    origin: str
    path: str
    prefix: str
    once: bool = True
    """Whether uploads carry `If-None-Match: *`, so that the service takes only the first."""

    @classmethod
    def parse(cls, blob_url: str, region: str, endpoint_url: str) -> "Bucket":
        """Read RELAY_BLOB_URL: `s3://<bucket>[/<prefix>][?style=path|virtual][&once=no]`.

        Without `endpoint_url` the service is AWS. Another endpoint is addressed by path (`endpoint/bucket/…`), AWS by
        virtual host (`bucket.s3.…`), unless `style` says otherwise. `once=no` is for services that do not support
        conditional writes. Raises ValueError.
        """
        url = urlsplit(blob_url)
        options = {name: values[-1] for name, values in parse_qs(url.query).items()}
        style = options.pop("style", "path" if endpoint_url else "virtual")
        endpoint = urlsplit(endpoint_url or f"https://s3.{region}.amazonaws.com")
        once = options.pop("once", "yes")
        if url.scheme != "s3" or not url.netloc or options or (style, once) not in _OPTIONS:
            raise ValueError(f"{blob_url!r} is not s3://<bucket>/<prefix>[?style=path|virtual][&once=no]")
        if endpoint.scheme not in ("http", "https") or not endpoint.hostname or endpoint.path.strip("/"):
            raise ValueError(f"AWS_ENDPOINT_URL {endpoint_url!r} is not http(s)://<host>[:<port>]")
        inside = unquote(url.path).strip("/")
        prefix = f"{inside}/" if inside else ""
        if style == "path":
            return cls(f"{endpoint.scheme}://{endpoint.netloc}", f"/{url.netloc}/", prefix, once == "yes")
        return cls(f"{endpoint.scheme}://{url.netloc}.{endpoint.netloc}", "/", prefix, once == "yes")


def bucket_from_aws(url: str, aws: Mapping[str, str]) -> tuple[Bucket, Credentials]:
    """The bucket that `url` and the AWS_* variables name. Raises ValueError, which names what is wrong."""
    for name in AWS_VARIABLES[:2]:
        if not aws.get(name):
            raise ValueError(f"{url!r} needs {name}")
    region = aws.get("AWS_REGION") or aws.get("AWS_DEFAULT_REGION") or "us-east-1"
    endpoint = aws.get("AWS_ENDPOINT_URL_S3") or aws.get("AWS_ENDPOINT_URL") or ""
    credentials = Credentials(
        access_key_id=aws["AWS_ACCESS_KEY_ID"],
        secret_access_key=aws["AWS_SECRET_ACCESS_KEY"],
        session_token=aws.get("AWS_SESSION_TOKEN", ""),
        region=region,
    )
    return Bucket.parse(url, region, endpoint), credentials


class S3Store:
    """A BlobStore on an S3 bucket. `clock` gives the time that signatures carry."""

    def __init__(
        self, bucket: Bucket, credentials: Credentials, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._bucket = bucket
        self._credentials = credentials
        self._clock = clock
        self._pool = httpcore2.AsyncConnectionPool(max_connections=MAX_CONNECTIONS, keepalive_expiry=5.0)

    @classmethod
    def from_aws(cls, blob_url: str, aws: Mapping[str, str]) -> "S3Store":
        """The store that RELAY_BLOB_URL and the AWS_* variables name. Raises ValueError, which names what is wrong."""
        return cls(*bucket_from_aws(blob_url, aws))

    def upload_headers(self, grant: Grant) -> Mapping[str, str]:
        headers = {"Content-Type": grant.media_type, "x-amz-checksum-sha256": digest_base64(grant.digest_sha256)}
        return headers | {"If-None-Match": "*"} if self._bucket.once else headers

    async def upload_url(self, grant: Grant, seconds: int, begins: int | None = None) -> str:
        headers = {**self.upload_headers(grant), "Content-Length": str(grant.byte_size)}
        now = self._clock()  # of this machine, whose clock may be behind that of Redis: no URL begins in the future
        return presign(
            self._credentials,
            self._object("PUT", grant.id),
            headers=headers,
            query={},
            seconds=seconds,
            now=now if begins is None else min(now, datetime.fromtimestamp(begins, UTC)),
        )

    async def content_url(self, grant: Grant, filename: str | None, seconds: int) -> str:
        answered = {
            "response-content-type": grant.media_type,
            "response-content-disposition": attachment(filename or grant.id),
            # An upload may have been sent with headers of its own, which the service keeps. Readers would decode the
            # bytes that were verified, to whatever size.
            "response-content-encoding": "identity",
            "response-cache-control": f"private, max-age={seconds}",
        }
        return presign(
            self._credentials,
            self._object("GET", grant.id),
            headers={},
            query=answered,
            seconds=seconds,
            now=self._clock(),
        )

    async def write(self, grant: Grant, content: bytes) -> None:
        status = await self._put(grant, content)
        if status == 412:  # what If-None-Match asks for: there are bytes already
            raise Refused("blob.uploaded")
        if status == 409:  # another PUT of this object is under way
            raise Refused("blob.busy")
        if status not in STORED:
            raise BlobUnavailable(f"the bucket answered PUT with {status}")

    async def size(self, artifact_id: str) -> int | None:
        async with self._request(self._object("HEAD", artifact_id)) as response:
            if response.status == 404:
                return None
            length = next((value for name, value in response.headers if name.lower() == b"content-length"), b"")
        if not length.isdigit():
            raise BlobUnavailable("the bucket answered HEAD without Content-Length")
        return int(length)

    async def read(self, grant: Grant) -> AsyncIterator[bytes]:
        ends, left = monotonic() + READ_SECONDS + grant.byte_size / SLOWEST_RATE, grant.byte_size
        async with self._request(self._object("GET", grant.id)) as response:
            if response.status == 404:
                raise BlobMissing(grant.id)
            async for chunk in response.aiter_stream():
                left -= len(chunk)
                if left < 0:
                    break
                if monotonic() > ends:
                    raise BlobUnavailable("the bucket sends too slowly")
                yield chunk
        if left:
            raise BlobUnavailable(f"the bucket answered GET with other than {grant.byte_size} bytes")

    async def delete(self, artifact_id: str) -> None:
        async with self._request(self._object("DELETE", artifact_id)):
            return

    async def free_bytes(self) -> int | None:
        return None

    async def check(self) -> None:
        async with self._request(SignedRequest("HEAD", self._bucket.origin, self._bucket.path)) as response:
            if response.status == 404:
                raise BlobUnavailable(f"there is no bucket at {self._bucket.origin}{self._bucket.path}")
        grant = probe_grant()
        status = await self._put(grant, PROBE)
        if status not in STORED:
            raise BlobUnavailable(f"the bucket answered PUT with {status}")
        try:
            found = b"".join([chunk async for chunk in self.read(grant)])
        except BlobMissing:
            found = b""
        finally:
            await self.delete(grant.id)
        if found != PROBE:
            raise BlobUnavailable("the bucket does not give back what was uploaded")

    async def sweep(self) -> int:
        return 0  # an interrupted PUT leaves nothing in a bucket

    async def close(self) -> None:
        await self._pool.aclose()

    def _object(self, method: str, artifact_id: str) -> SignedRequest:
        return SignedRequest(
            method, self._bucket.origin, self._bucket.path + self._bucket.prefix + blob_id(artifact_id)
        )

    async def _put(self, grant: Grant, content: bytes) -> int:
        """PUT as a client does: to a presigned URL, with the headers that it signs. Returns the status."""
        url = await self.upload_url(grant, WRITE_SECONDS)
        headers = {**self.upload_headers(grant), "Content-Length": str(grant.byte_size)}
        try:
            response = await self._pool.request(
                "PUT", url, headers=list(headers.items()), content=content, extensions={"timeout": _TIMEOUT}
            )
        except UNREACHABLE as error:
            raise BlobUnavailable(f"the bucket cannot be reached: {error!r}") from error
        return response.status

    @asynccontextmanager
    async def _request(self, target: SignedRequest) -> AsyncGenerator[httpcore2.Response]:
        """The response to a request that the node itself makes: a success, or 404."""
        headers = list(authorize(self._credentials, target, {}, self._clock()).items())
        limits = {"timeout": _TIMEOUT}
        try:
            async with self._pool.stream(target.method, target.url(), headers=headers, extensions=limits) as response:
                if response.status not in (200, 204, 404):
                    raise BlobUnavailable(f"the bucket answered {target.method} with {response.status}")
                yield response
        except UNREACHABLE as error:
            raise BlobUnavailable(f"the bucket cannot be reached: {error!r}") from error
