"""Verifies that the bytes in the blob store are those that a manifest promises. This runs in the worker.

An event says that a client has completed an upload. The upload is verified each time the event is delivered, but only
the first verdict on each attempt counts, so a worker may die at any point.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256

from node.artifacts.blobs.interface import BlobMissing, BlobStore, BlobUnavailable, Grant
from node.artifacts.outage import OUTAGE
from node.artifacts.record import StoredArtifact
from node.artifacts.sniff import HEAD_BYTES, plainly_other
from node.artifacts.store import ArtifactStore, ArtifactVerdict
from node.share.fair_semaphore import FairSemaphore
from node.share.site import site_of
from node.store.outbox import Event, Postponed

COMPLETED = "artifact.completed"
CONCURRENT_VERIFICATIONS = 4
"""Artifacts that one worker reads at the same time. More would only share the same disk or network."""

SITE_VERIFICATIONS = CONCURRENT_VERIFICATIONS // 2
"""How many of them may be of one site. A large artifact may take minutes, for which other sites must not wait."""

NOTHING_UPLOADED = "The artifact was completed before anything was uploaded; upload its bytes, then complete it again."


class Verifier:
    """Verifies artifacts when events say that they were completed."""

    def __init__(self, store: ArtifactStore, blobs: BlobStore) -> None:
        self._store = store
        self._blobs = blobs
        self._turns = FairSemaphore(CONCURRENT_VERIFICATIONS, each=SITE_VERIFICATIONS)

    async def handle(self, events: Sequence[Event]) -> None:
        """Verify every artifact that was completed. Handling the same events again changes nothing.

        Raises StoreUnavailable. If the blob store is out of reach, raises Postponed once all others are verified: the
        events must then be delivered again.
        """
        completed = [event for event in events if event.kind == COMPLETED]
        verified = (self._verify(event.entity, event.fields["attempt"]) for event in completed)
        for failure in await asyncio.gather(*verified, return_exceptions=True):
            if isinstance(failure, BlobUnavailable):
                OUTAGE.report(failure)
                raise Postponed from failure
            if failure is not None:
                raise failure

    async def _verify(self, artifact_id: str, attempt: str) -> None:
        stored = await self._unverified(artifact_id, attempt)
        if stored is None:
            return
        async with self._turns.of(site_of(stored.client)):
            if await self._unverified(artifact_id, attempt) is None:  # another worker was faster
                return
            verdict = await judge(self._blobs, stored.grant)
            if await self._store.settle(artifact_id, attempt, verdict) and verdict.status == "rejected":
                with suppress(BlobUnavailable):  # the sweep deletes the bytes later
                    await self._blobs.delete(artifact_id)

    async def _unverified(self, artifact_id: str, attempt: str) -> StoredArtifact | None:
        """Return the artifact; None if a verdict on that attempt is no longer needed. Raises StoreUnavailable."""
        stored = await self._store.read(artifact_id)
        return stored if stored and stored.status == "verifying" and stored.attempt == attempt else None


async def judge(blobs: BlobStore, grant: Grant) -> ArtifactVerdict:
    """Compare the stored bytes, read as a stream, with what the grant promises. Raises BlobUnavailable."""
    size = await blobs.size(grant.id)
    if size is None:
        return ArtifactVerdict("registered", NOTHING_UPLOADED)
    if size != grant.byte_size:
        return ArtifactVerdict("rejected", f"The uploaded content has {size} bytes, not {grant.byte_size}.")
    digest, head = sha256(), bytearray()
    try:
        async for chunk in blobs.read(grant):
            digest.update(chunk)
            head += chunk[: HEAD_BYTES - len(head)]
    except BlobMissing:
        return ArtifactVerdict("registered", NOTHING_UPLOADED)
    if digest.hexdigest() != grant.digest_sha256:
        return ArtifactVerdict(
            "rejected", f"The SHA-256 of the uploaded bytes is {digest.hexdigest()}, not digest_sha256."
        )
    other = plainly_other(bytes(head), grant.media_type)
    if other:
        return ArtifactVerdict("rejected", f"The uploaded content is plainly {other}, not {grant.media_type}.")
    return ArtifactVerdict("available")
