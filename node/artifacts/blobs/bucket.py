"""A bucket of an S3-compatible service: its address, the account that may use it, and requests to it.

The node makes requests in the same way as its clients: by presigned URLs (`sigv4`).
"""

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import MappingProxyType
from urllib.parse import parse_qs, unquote, urlsplit

import httpcore2
import msgspec

from node.artifacts.blobs.interface import BlobUnavailable
from node.artifacts.blobs.sigv4 import Credentials, presign

AWS_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL",
)
"""The standard environment variables of every S3 client. The first two are required."""

CONNECT_SECONDS = 3.0

REQUEST_SECONDS = 900
"""Seconds for which the URL of one of the node's own requests is valid; the request has to begin within that time. S3
refuses requests from clocks that are off by more."""

IDLE_SECONDS = 5.0
"""Seconds for which an idle connection is kept for another request."""

SUCCESS = (200, 201, 204)

UNREACHABLE = (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError, ssl.SSLError)
"""What httpcore2 raises if the exchange with a service fails. TLS errors after the handshake pass through unchanged."""

_OPTIONS = [(style, once) for style in ("path", "virtual") for once in ("yes", "no")]
_NOTHING: Mapping[str, str] = MappingProxyType({})


class Bucket(msgspec.Struct, frozen=True):
    """Where objects are: the origin that serves the bucket, the path of the bucket there, and the prefix of an id."""

    origin: str
    path: str
    prefix: str
    once: bool = True
    """Whether uploads carry `If-None-Match: *`, so that the service accepts only the first one."""

    @classmethod
    def parse(cls, blob_url: str, region: str, endpoint_url: str) -> "Bucket":
        """Parse RELAY_BLOB_URL: `s3://<bucket>[/<prefix>][?style=path|virtual][&once=no]`.

        Without `endpoint_url` the service is AWS. AWS is addressed by virtual host (`bucket.s3.…`) and any other
        endpoint by path (`endpoint/bucket/…`), unless `style` says otherwise. `once=no` is for services that do not
        support conditional writes. Raises ValueError.
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
    """Return the bucket and account that `url` and the AWS_* variables name. Raises ValueError, which says what is
    wrong.
    """
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


class BucketClient:
    """Makes signed URLs and requests.

    `silence`: seconds without a byte after which a request is given up. `clock` returns the time for signatures. A
    `name` is put after the bucket's prefix; None stands for the bucket itself.
    """

    def __init__(
        self,
        bucket: Bucket,
        credentials: Credentials,
        *,
        connections: int,
        silence: float,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.bucket = bucket
        self._credentials = credentials
        self._clock = clock
        self._timeout = {"connect": CONNECT_SECONDS, "read": silence, "write": silence, "pool": silence}
        self._pool = httpcore2.AsyncConnectionPool(max_connections=connections, keepalive_expiry=IDLE_SECONDS)

    def url(
        self,
        method: str,
        name: str | None,
        *,
        headers: Mapping[str, str] = _NOTHING,
        query: Mapping[str, str] = _NOTHING,
        seconds: int = REQUEST_SECONDS,
        begins: float | None = None,
    ) -> str:
        """Return a URL that accepts a request with exactly these headers.

        It is valid for `seconds` from the Unix time `begins`, or from now on, and for up to a second longer, because
        signatures have whole seconds.
        """
        now = self._clock()  # this machine's clock may be behind that of Redis: no URL begins in the future
        if begins is not None:
            now = min(now, datetime.fromtimestamp(begins, UTC))
        seconds += now.microsecond > 0  # the signed time is rounded down to a second
        path = self.bucket.path if name is None else f"{self.bucket.path}{self.bucket.prefix}{name}"
        origin = self.bucket.origin
        return presign(self._credentials, method, origin, path, headers=headers, query=query, seconds=seconds, now=now)

    @asynccontextmanager
    async def ask(
        self,
        method: str,
        name: str | None,
        *,
        headers: Mapping[str, str] = _NOTHING,
        query: Mapping[str, str] = _NOTHING,
        content: bytes | AsyncIterator[bytes] | None = None,
        others: tuple[int, ...] = (404,),
    ) -> AsyncGenerator[httpcore2.Response]:
        """Send a request, and yield its response: a success, or a status among `others`. Raises BlobUnavailable."""
        url = self.url(method, name, headers=headers, query=query)
        limits = {"timeout": self._timeout}
        try:
            async with self._pool.stream(
                method, url, headers=list(headers.items()), content=content, extensions=limits
            ) as response:
                if response.status not in (*SUCCESS, *others):
                    raise BlobUnavailable(f"the bucket answered {method} with {response.status}")
                yield response
        except UNREACHABLE as error:
            raise BlobUnavailable(f"the bucket cannot be reached: {error!r}") from error

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.aclose()
