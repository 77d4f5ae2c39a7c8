"""The record of an artifact in Redis, and the manifest made from it.

The status depends on the clock: an artifact whose time is over is expired even before the worker ends it.
"""

import math
from typing import cast

import msgspec

from node.artifacts.blobs.interface import Grant
from node.artifacts.model import ArtifactStatus, Manifest
from node.common.timestamps import optional_timestamp, timestamp
from node.store.decoding import fields_of, number, text

NOT_COMPLETED = "The artifact was not uploaded and completed in time; register it again."
NOT_VERIFIED = "The artifact could not be verified in time; register it again."
KEPT_LONG_ENOUGH = "The time for which this node keeps an artifact is over."


class StoredArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """The record as it was when it was read. Times are in milliseconds since 1970."""

    id: str
    read_at: int
    """When it was read, by Redis' clock."""
    stored_status: ArtifactStatus
    stored_reason: str | None
    attempt: str
    """How many times the artifact was completed."""
    publisher_id: str
    filename: str | None
    client: str
    """The client against whose quotas it counts; empty in the record of an earlier version."""
    grant: Grant
    """The bytes that were promised."""
    created_at: int
    completed_at: int | None
    available_at: int | None
    ends_at: int | None
    """When the status ends by itself; None for a rejected artifact."""

    @classmethod
    def of(cls, artifact_id: str, read_at: int, reply: object) -> "StoredArtifact | None":
        """Return the record in a reply to HGETALL; None for an unknown id."""
        fields = fields_of(reply)
        if not fields:
            return None
        return cls(
            id=artifact_id,
            read_at=read_at,
            stored_status=cast("ArtifactStatus", fields[b"status"].decode()),
            stored_reason=text(fields.get(b"reason")),
            attempt=fields[b"attempt"].decode(),
            publisher_id=fields[b"publisher_id"].decode(),
            filename=text(fields.get(b"filename")),
            client=fields.get(b"client", b"").decode(),
            grant=Grant(
                id=artifact_id,
                byte_size=int(fields[b"byte_size"]),
                media_type=fields[b"media_type"].decode(),
                digest_sha256=fields[b"digest_sha256"].decode(),
            ),
            created_at=int(fields[b"created_at"]),
            completed_at=number(fields.get(b"completed_at")),
            available_at=number(fields.get(b"available_at")),
            ends_at=number(fields.get(b"expires_at")),
        )

    @property
    def status(self) -> ArtifactStatus:
        """The status when it was read, even if the worker has not ended the artifact yet."""
        return "expired" if self.ends_at is not None and self.ends_at <= self.read_at else self.stored_status

    @property
    def lasts(self) -> float:
        """Seconds from `read_at` until the status changes by itself; infinite if it never does."""
        if self.ends_at is None or self.status == "expired":
            return math.inf
        return (self.ends_at - self.read_at + 1) / 1000

    @property
    def reason(self) -> str | None:
        """Why the artifact is rejected or expired, or registered again; None otherwise."""
        if self.status != "expired":
            return self.stored_reason
        if self.available_at:
            return KEPT_LONG_ENOUGH
        return NOT_VERIFIED if self.completed_at else NOT_COMPLETED

    def when_completed(self, life: int) -> "StoredArtifact":
        """Return the artifact as it was when it was completed, whatever was found since.

        `life`: milliseconds, as in `lua/artifact_complete.lua`.
        """
        at = self.completed_at or 0
        return msgspec.structs.replace(
            self, read_at=at, stored_status="verifying", stored_reason=None, available_at=None, ends_at=at + life
        )

    def manifest(self, url: str) -> Manifest:
        """Return the artifact as everybody sees it, with `url` as its address."""
        return Manifest(
            id=self.id,
            status=self.status,
            reason=self.reason,
            publisher_id=self.publisher_id,
            media_type=self.grant.media_type,
            byte_size=self.grant.byte_size,
            digest_sha256=self.grant.digest_sha256,
            filename=self.filename,
            created_at=timestamp(self.created_at),
            completed_at=optional_timestamp(self.completed_at),
            available_at=optional_timestamp(self.available_at),
            expires_at=optional_timestamp(self.ends_at),
            url=url,
            content_url=f"{url}/content",
        )
