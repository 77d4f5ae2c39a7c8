"""What the artifact room asks of a blob store, and how a store says no.

Two stores implement it: `disk` (embedded, on the local file system) and `s3`. Neither knows
manifests, states or quotas: those are the room's. A store enforces what a grant binds: size, type
and digest of the bytes.
"""

import re
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from hashlib import sha256
from secrets import token_hex
from typing import Protocol
from urllib.parse import quote

import msgspec

CHUNK = 256 * 1024
"""Bytes moved at a time: large enough that the hop to a thread costs little, small enough to hold many."""

PROBE = b"relay-node"
"""What a check writes, reads and deletes again."""

PROBE_SECONDS = 60
"""How long a check may use the URL that it uploads to."""

_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MEDIA_TYPE = re.compile(r"[!#$&^_.+0-9A-Za-z-]+/[!#$&^_.+0-9A-Za-z-]+[\x20-\x7e]*")
_PLAIN_NAME = re.compile(r"[^0-9A-Za-z._ -]")


class BlobError(Exception):
    """A blob store could not do what was asked."""


class BlobMissing(BlobError):
    """There are no bytes under that id."""


class BlobUnavailable(BlobError):
    """The store is out of reach or refuses the node; nothing is known about the bytes."""

    def __init__(self, reason: str, retry_after: float = 5.0) -> None:
        super().__init__(reason)
        self.retry_after = retry_after
        """Seconds after which another attempt makes sense."""


class Grant(msgspec.Struct, frozen=True):
    """The one blob that may be stored under an id, as its manifest promises it.

    Raises ValueError when made of values that could not be written into a path or a header.
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


class Stat(msgspec.Struct, frozen=True):
    """What a store holds under an id."""

    byte_size: int


class BlobStore(Protocol):
    """Where artifact bytes live. Every method may raise BlobUnavailable."""

    def upload_headers(self, grant: Grant) -> Mapping[str, str]:
        """Headers that the PUT to `upload_url` has to carry, besides Content-Length."""
        ...

    async def upload_url(self, grant: Grant, expires: int) -> str:
        """A URL that takes one PUT of exactly these bytes, for `expires` seconds."""
        ...

    async def content_url(self, grant: Grant, filename: str | None, expires: int) -> str:
        """A URL that answers GET with the bytes as an attachment, for `expires` seconds."""
        ...

    async def stat(self, artifact_id: str) -> Stat | None:
        """What is stored, None if nothing."""
        ...

    def read(self, artifact_id: str) -> AsyncIterator[bytes]:
        """The bytes in chunks. Raises BlobMissing before the first."""
        ...

    async def delete(self, artifact_id: str) -> None:
        """Remove the bytes; nothing to remove is no error."""
        ...

    async def free_bytes(self) -> int | None:
        """Bytes that can still be stored; None where the store does not know."""
        ...

    async def check(self) -> None:
        """Write, read and delete a few bytes as artifacts are; BlobUnavailable says what does not work."""
        ...

    async def sweep(self) -> int:
        """Remove what interrupted uploads left behind; how many files went."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


def probe_grant() -> Grant:
    """A blob for a check, under an id that no artifact has."""
    return Grant(f"check-{token_hex(8)}", len(PROBE), "text/plain", sha256(PROBE).hexdigest())


def blob_id(text: str) -> str:
    """`text`, if it can name a blob in a path or a URL. Raises ValueError."""
    if not _ID.fullmatch(text):
        raise ValueError(f"{text!r} is not an artifact id")
    return text


def digest_base64(digest_sha256: str) -> str:
    """A hexadecimal SHA-256 as HTTP headers write it."""
    return b64encode(bytes.fromhex(digest_sha256)).decode("ascii")


def attachment(filename: str) -> str:
    """A Content-Disposition that makes a browser save, never show, the content (RFC 6266)."""
    plain = _PLAIN_NAME.sub("_", filename)
    value = f'attachment; filename="{plain}"'
    return value if plain == filename else f"{value}; filename*=UTF-8''{quote(filename, safe='', errors='replace')}"
