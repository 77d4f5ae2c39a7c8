"""A blob store on any S3-compatible service: presigned URLs for clients, and requests of the node.

Large contents go between client and bucket; the node only asks for their size, reads them once to verify them, and
deletes them. Small contents that are stored or read in JSON go through the node. A presigned PUT signs Content-Length,
Content-Type and the SHA-256, so that the service itself refuses other bytes. It also signs `If-None-Match: *`, so that
the service accepts only the first upload. `bucket` makes the requests and signs them.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from time import monotonic

from node.artifacts.blobs.bucket import Bucket, BucketClient, bucket_from_aws
from node.artifacts.blobs.headers import attachment, digest_base64
from node.artifacts.blobs.interface import PROBE, BlobMissing, BlobUnavailable, Grant, blob_id, probe_grant
from node.artifacts.blobs.sigv4 import Credentials
from node.common.refusal import Refused

READ_SECONDS = 10.0
"""Longest time without a byte, in seconds. An object of 100 MiB may take longer as a whole."""

SLOWEST_RATE = 64 * 1024
"""Bytes a second below which an object that is being read is given up, after READ_SECONDS. The worker verifies few
objects at a time, and one that came byte by byte would hold a place for days."""

MAX_CONNECTIONS = 16
"""Connections to the bucket per process. A request waits at most READ_SECONDS for a free one."""


class S3Store:
    """A BlobStore on an S3 bucket. `clock` returns the time for signatures."""

    def __init__(
        self, bucket: Bucket, credentials: Credentials, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._client = BucketClient(bucket, credentials, connections=MAX_CONNECTIONS, silence=READ_SECONDS, clock=clock)

    @classmethod
    def from_aws(cls, blob_url: str, aws: Mapping[str, str]) -> "S3Store":
        """Return the store that RELAY_BLOB_URL and AWS_* variables name. Raises ValueError, which says what
        is wrong.
        """
        return cls(*bucket_from_aws(blob_url, aws))

    def upload_headers(self, grant: Grant) -> Mapping[str, str]:
        headers = {"Content-Type": grant.media_type, "x-amz-checksum-sha256": digest_base64(grant.digest_sha256)}
        return headers | {"If-None-Match": "*"} if self._client.bucket.once else headers

    async def upload_url(self, grant: Grant, seconds: int, begins: float | None = None) -> str:
        return self._client.url(
            "PUT", blob_id(grant.id), headers=self._signed_headers(grant), seconds=seconds, begins=begins
        )

    async def content_url(self, grant: Grant, filename: str | None, seconds: int) -> str:
        answered = {
            "response-content-type": grant.media_type,
            "response-content-disposition": attachment(filename or grant.id),
            # An upload may have been sent with a Content-Encoding, which the service keeps. Without this, readers would
            # decode the verified bytes, to whatever size.
            "response-content-encoding": "identity",
            "response-cache-control": f"private, max-age={seconds}",
        }
        return self._client.url("GET", blob_id(grant.id), query=answered, seconds=seconds)

    async def write(self, grant: Grant, content: bytes) -> None:
        status = await self._put(grant, content, others=(409, 412))
        if status == 412:  # the answer to If-None-Match: there are bytes already
            raise Refused("blob.uploaded")
        if status == 409:  # another PUT of this object is under way
            raise Refused("blob.busy")

    async def size(self, artifact_id: str) -> int | None:
        async with self._client.ask("HEAD", blob_id(artifact_id)) as response:
            if response.status == 404:
                return None
            length = next((value for name, value in response.headers if name.lower() == b"content-length"), b"")
        if not length.isdigit():
            raise BlobUnavailable("the bucket answered HEAD without Content-Length")
        return int(length)

    async def read(self, grant: Grant) -> AsyncIterator[bytes]:
        ends, left = monotonic() + READ_SECONDS + grant.byte_size / SLOWEST_RATE, grant.byte_size
        async with self._client.ask("GET", blob_id(grant.id)) as response:
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
        async with self._client.ask("DELETE", blob_id(artifact_id)) as response:
            await response.aread()

    async def free_bytes(self) -> int | None:
        return None

    async def check(self) -> None:
        async with self._client.ask("HEAD", None) as response:
            if response.status == 404:
                bucket = self._client.bucket
                raise BlobUnavailable(f"there is no bucket at {bucket.origin}{bucket.path}")
        grant = probe_grant()
        await self._put(grant, PROBE)
        try:
            found = b"".join([chunk async for chunk in self.read(grant)])
        except BlobMissing:
            found = b""
        finally:
            await self.delete(grant.id)
        if found != PROBE:
            raise BlobUnavailable("the bucket does not give back what was uploaded")

    async def sweep(self) -> None:
        """Do nothing: an interrupted PUT leaves nothing in a bucket."""

    async def close(self) -> None:
        await self._client.close()

    async def _put(self, grant: Grant, content: bytes, others: tuple[int, ...] = ()) -> int:
        """PUT as a client does, with the headers that its URL signs. Returns the status."""
        headers = self._signed_headers(grant)
        async with self._client.ask("PUT", blob_id(grant.id), headers=headers, content=content, others=others) as put:
            await put.aread()
            return put.status

    def _signed_headers(self, grant: Grant) -> Mapping[str, str]:
        return {**self.upload_headers(grant), "Content-Length": str(grant.byte_size)}
