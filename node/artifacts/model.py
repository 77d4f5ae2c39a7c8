"""Requests and answers about artifacts (SPEC 2.6, 4.6; DESIGN 8)."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

ArtifactStatus = Literal["registered", "verifying", "available", "rejected", "expired"]
LAST: tuple[ArtifactStatus, ...] = ("rejected", "expired")
"""Final statuses."""

NAME_LENGTH = 200
MEDIA_TYPE_LENGTH = 255
FILENAME_LENGTH = 255

INLINE_BYTES = 256 * 1024
"""Maximum size, in bytes, of an artifact that is stored or read in JSON, through the node."""

EXAMPLE_TEXT = "id,name\n1,Ada\n2,Grace\n"
"""The bytes that the example in llms-full.txt uploads."""
EXAMPLE_DIGEST = "9141c69637e955662df54df4b8aa9b41149de2fd7b19b532ec142ef114049619"

Publisher = Annotated[
    str,
    Meta(min_length=1, max_length=NAME_LENGTH, description="A public name of your choice, one line"),
    Meta(examples=["report-desk"]),
]
MediaType = Annotated[
    str,
    Meta(min_length=3, max_length=MEDIA_TYPE_LENGTH, description="IANA media type, such as text/csv"),
    Meta(examples=["text/csv"]),
]


class NewArtifact(msgspec.Struct):
    """The body of POST /api/v1/artifacts."""

    publisher_id: Publisher
    media_type: MediaType
    byte_size: Annotated[
        int, Meta(ge=1, description="Number of bytes that will be uploaded", examples=[len(EXAMPLE_TEXT)])
    ]
    digest_sha256: Annotated[
        str,
        Meta(max_length=64, description="SHA-256 digest of the bytes: 64 hexadecimal digits, or base64"),
        Meta(examples=[EXAMPLE_DIGEST]),
    ]
    filename: (
        Annotated[str, Meta(max_length=FILENAME_LENGTH, description="File name under which readers save the bytes")]
        | None
    ) = None


class Manifest(msgspec.Struct, kw_only=True):
    """An artifact as everybody sees it. Receivers verify digest_sha256 before they use the bytes."""

    id: str
    status: Annotated[ArtifactStatus, Meta(examples=["registered"])]
    reason: Annotated[str | None, Meta(examples=[None])]
    """Why the artifact is rejected or expired, or why it is registered again after it was completed."""
    publisher_id: Annotated[str, Meta(examples=["report-desk"])]
    media_type: Annotated[str, Meta(examples=["text/csv"])]
    byte_size: Annotated[int, Meta(examples=[len(EXAMPLE_TEXT)])]
    digest_sha256: Annotated[str, Meta(examples=[EXAMPLE_DIGEST])]
    """64 lower-case hex digits."""
    filename: Annotated[str | None, Meta(examples=[None])]
    created_at: str
    completed_at: str | None
    """When a client said that the bytes were uploaded."""
    available_at: str | None
    expires_at: str | None
    """When its status ends by itself: the end of the time to complete it, to verify it, or to keep it."""
    url: str
    content_url: str
    """Leads to the bytes while the artifact is available."""


class RegisteredArtifact(Manifest, kw_only=True):
    """A new artifact. No other answer shows its upload_url."""

    upload_url: str | None
    """Takes one PUT of exactly these bytes; null if a repeated request comes too late for it."""
    upload_headers: Annotated[dict[str, str], Meta(examples=[{"Content-Type": "text/csv"}])]
    """Headers that the PUT must have besides Content-Length."""
    upload_expires_at: str


class InlineArtifact(msgspec.Struct):
    """The body of POST /api/v1/artifacts/inline: the bytes, as text or base64, and their description."""

    publisher_id: Publisher
    media_type: MediaType
    text: Annotated[str, Meta(max_length=INLINE_BYTES, examples=[EXAMPLE_TEXT])] | None = None
    base64: Annotated[str, Meta(max_length=INLINE_BYTES * 4 // 3 + 4)] | None = None
    filename: Annotated[str, Meta(max_length=FILENAME_LENGTH)] | None = None


class InlineContent(msgspec.Struct, kw_only=True):
    """The bytes of a small artifact: as text if they are text, otherwise in base64."""

    id: str
    media_type: Annotated[str, Meta(examples=["text/csv"])]
    byte_size: Annotated[int, Meta(examples=[len(EXAMPLE_TEXT)])]
    digest_sha256: Annotated[str, Meta(examples=[EXAMPLE_DIGEST])]
    text: Annotated[str, Meta(examples=[EXAMPLE_TEXT])] | None
    base64: Annotated[str | None, Meta(examples=[None])]


class ArtifactQuery(msgspec.Struct):
    """The query of GET /api/v1/artifacts/{id}."""

    wait: Annotated[float, Meta(ge=0, le=30, description="Seconds to wait for the status to change")] = 0
    status: (
        Annotated[ArtifactStatus, Meta(description="The status that you last saw; omit it to wait for any change")]
        | None
    ) = None
