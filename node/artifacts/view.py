"""An artifact's row in Redis as everybody sees it: its status is judged by Redis' clock, not by the sweep."""

from typing import cast

import msgspec

from node.artifacts.blobs.interface import Grant
from node.artifacts.model import ArtifactStatus, Manifest
from node.common.timestamps import timestamp
from node.store.decoding import number, text

NOT_COMPLETED = "It was not uploaded and completed in time; register it again."
NOT_VERIFIED = "It could not be verified in time; register it again."
KEPT_LONG_ENOUGH = "The time for which this node keeps an artifact is over."


class StoredArtifact(msgspec.Struct, frozen=True):
    """The fields of an artifact at one moment; none for an unknown id."""

    now: int
    """Milliseconds, by Redis' clock."""
    fields: dict[bytes, bytes]

    @property
    def is_known(self) -> bool:
        return bool(self.fields)

    @property
    def status(self) -> ArtifactStatus:
        """What the artifact is now, whether or not the sweep has come by."""
        stored = cast("ArtifactStatus", self.fields[b"status"].decode())
        ends = self.ends
        return "expired" if ends is not None and ends <= self.now else stored

    @property
    def ends(self) -> int | None:
        """When the status ends by itself (ms); None for a rejected artifact."""
        return number(self.fields.get(b"expires_at"))

    @property
    def created_at(self) -> int:
        """Milliseconds."""
        return int(self.fields[b"created_at"])

    @property
    def attempt(self) -> str:
        """Which completion this is."""
        return self.fields[b"attempt"].decode()

    @property
    def filename(self) -> str | None:
        """The name its publisher gave it."""
        return text(self.fields.get(b"filename"))


def grant_of(artifact_id: str, row: StoredArtifact) -> Grant:
    """The bytes that the manifest promises."""
    return Grant(
        id=artifact_id,
        byte_size=int(row.fields[b"byte_size"]),
        media_type=row.fields[b"media_type"].decode(),
        digest_sha256=row.fields[b"digest_sha256"].decode(),
    )


def manifest_of(artifact_id: str, url: str, row: StoredArtifact) -> Manifest:
    """The row as everybody sees it."""
    fields = row.fields
    return Manifest(
        id=artifact_id,
        status=row.status,
        reason=_reason(row),
        publisher_id=fields[b"publisher_id"].decode(),
        media_type=fields[b"media_type"].decode(),
        byte_size=int(fields[b"byte_size"]),
        digest_sha256=fields[b"digest_sha256"].decode(),
        filename=row.filename,
        created_at=timestamp(row.created_at),
        completed_at=_time(fields.get(b"completed_at")),
        available_at=_time(fields.get(b"available_at")),
        expires_at=_time(fields.get(b"expires_at")),
        url=url,
        content_url=f"{url}/content",
    )


def _reason(row: StoredArtifact) -> str | None:
    if row.status != "expired":
        return text(row.fields.get(b"reason"))
    if b"available_at" in row.fields:
        return KEPT_LONG_ENOUGH
    return NOT_VERIFIED if b"completed_at" in row.fields else NOT_COMPLETED


def _time(value: bytes | None) -> str | None:
    return timestamp(int(value)) if value else None
