"""What artifacts need from a blob store: the operations, and the exceptions that every store raises.

Two stores implement it: `disk` (embedded, on the local file system) and `s3`. Neither knows manifests, states or
quotas: those are in `node.artifacts`. A store enforces what a grant promises: size, type and digest of the bytes.
"""

import re
from collections.abc import AsyncIterator, Mapping
from hashlib import sha256
from secrets import token_hex
from typing import Protocol

import msgspec

CHUNK_BYTES = 256 * 1024
"""Bytes moved at a time: enough that handing them to a thread costs little, few enough for many transfers at once."""

RETRY_AFTER_SECONDS = 5.0
"""Seconds after which another attempt makes sense when a store was unavailable."""

PROBE = b"relay-node"
"""The bytes that a check of a store writes, reads and deletes."""

_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MEDIA_TYPE = re.compile(r"[!#$&^_.+0-9A-Za-z-]+/[!#$&^_.+0-9A-Za-z-]+[\x20-\x7e]*")


class BlobMissing(Exception):
    """There are no bytes under that id."""


class BlobUnavailable(Exception):
    """The store cannot be reached, or refuses the node. Nothing is known about the bytes."""


class Grant(msgspec.Struct, frozen=True):
    """The one blob that may be stored under an id, as its manifest promises it.

    Raises ValueError when created with values that could not be written into a path or a header.
    """

    id: str
    byte_size: int
    media_type: str
    digest_sha256: str
    """64 lower-case hexadecimal digits."""

    def __post_init__(self) -> None:
        blob_id(self.id)
        if self.byte_size < 1:
            raise ValueError(f"byte_size {self.byte_size} is not positive")
        if not _MEDIA_TYPE.fullmatch(self.media_type):
            raise ValueError(f"{self.media_type!r} is not a media type")
        if not _DIGEST.fullmatch(self.digest_sha256):
            raise ValueError(f"{self.digest_sha256!r} is not a SHA-256 in lower-case hexadecimal")


class BlobStore(Protocol):
    """A store of artifact bytes. Every method may raise BlobUnavailable."""

    def upload_headers(self, grant: Grant) -> Mapping[str, str]:
        """Return the headers that the PUT to `upload_url` must have, besides Content-Length."""
        ...

    async def upload_url(self, grant: Grant, seconds: int, begins: float | None = None) -> str:
        """Return a URL for one PUT of exactly these bytes, for `seconds` from the Unix time `begins`, or from now.

        The same arguments make the same URL.
        """
        ...

    async def content_url(self, grant: Grant, filename: str | None, seconds: int) -> str:
        """Return a URL that answers GET with the bytes as an attachment, for `seconds`."""
        ...

    async def write(self, grant: Grant, content: bytes) -> None:
        """Store bytes that came with a request.

        Raises Refused `blob.uploaded` if there are bytes under that id, `blob.busy` while others are being stored.
        """
        ...

    async def size(self, artifact_id: str) -> int | None:
        """Return how many bytes are stored; None if there are none."""
        ...

    def read(self, grant: Grant) -> AsyncIterator[bytes]:
        """Yield the bytes in chunks. Raises BlobMissing before any, BlobUnavailable unless as many come as granted."""
        ...

    async def delete(self, artifact_id: str) -> None:
        """Delete the bytes. Missing bytes are no error."""
        ...

    async def free_bytes(self) -> int | None:
        """Return the bytes that can still be stored; None if the store does not know."""
        ...

    async def check(self) -> None:
        """Write, read and delete a few bytes in the same way as artifacts. BlobUnavailable says what does not work."""
        ...

    async def sweep(self) -> None:
        """Remove what interrupted uploads left behind."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


def probe_grant() -> Grant:
    """Return the grant of a blob for a check, under an id that no artifact has."""
    return Grant(f"check-{token_hex(8)}", len(PROBE), "text/plain", sha256(PROBE).hexdigest())


def blob_id(text: str) -> str:
    """Return `text` if it can name a blob in a path or a URL. Raises ValueError otherwise."""
    if not _ID.fullmatch(text):
        raise ValueError(f"{text!r} is not an artifact id")
    return text
