"""Whether the bytes in the blob store are those that a manifest promises: the worker's part of artifacts.

An event says that a client has completed an upload. Each is verified as often as it is delivered; only
the first verdict on an attempt counts, so a worker may die at any point.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256

from node.artifacts.blobs.interface import BlobMissing, BlobStore, BlobUnavailable, Grant
from node.artifacts.sniff import HEAD, plainly_other
from node.artifacts.store import ArtifactStore, ArtifactVerdict
from node.artifacts.view import grant_of
from node.store.outbox import Event

COMPLETED = "artifact.completed"
AT_ONCE = 4
"""Artifacts one worker reads at a time; more would only share the same disk or line."""

NOTHING_THERE = "Nothing was uploaded when it was completed; upload it, then complete it again."


class Verifier:
    """Verifies artifacts as their completions are told."""

    def __init__(self, store: ArtifactStore, blobs: BlobStore) -> None:
        self._store = store
        self._blobs = blobs
        self._places = asyncio.Semaphore(AT_ONCE)

    async def handle(self, events: Sequence[Event]) -> None:
        """Settle every completion among `events`; again changes nothing.

        Raises StoreUnavailable, BlobUnavailable: then all that could be settled is, and the rest is to come again.
        """
        completed = [event for event in events if event.kind == COMPLETED]
        verified = (self._verify(event.entity, event.fields["attempt"]) for event in completed)
        for failure in await asyncio.gather(*verified, return_exceptions=True):
            if failure is not None:
                raise failure

    async def _verify(self, artifact_id: str, attempt: str) -> None:
        async with self._places:
            row = await self._store.read(artifact_id)
            if not row.is_known or row.status != "verifying" or row.attempt != attempt:
                return
            verdict = await judge(self._blobs, grant_of(artifact_id, row))
            if await self._store.settle(artifact_id, attempt, verdict) and verdict.status == "rejected":
                with suppress(BlobUnavailable):  # the sweep deletes them too
                    await self._blobs.delete(artifact_id)


async def judge(blobs: BlobStore, grant: Grant) -> ArtifactVerdict:
    """Hold the stored bytes against the grant, streaming. Raises BlobUnavailable."""
    stat = await blobs.stat(grant.id)
    if stat is None:
        return ArtifactVerdict("registered", NOTHING_THERE)
    if stat.byte_size != grant.byte_size:
        return ArtifactVerdict("rejected", f"It has {stat.byte_size} bytes, not {grant.byte_size}.")
    digest, head = sha256(), bytearray()
    try:
        async for chunk in blobs.read(grant.id):
            digest.update(chunk)
            head += chunk[: HEAD - len(head)]
    except BlobMissing:
        return ArtifactVerdict("registered", NOTHING_THERE)
    if digest.hexdigest() != grant.digest_sha256:
        return ArtifactVerdict("rejected", f"Its SHA-256 is {digest.hexdigest()}, not that of the manifest.")
    other = plainly_other(bytes(head), grant.media_type)
    if other:
        return ArtifactVerdict("rejected", f"It is plainly {other}, not {grant.media_type}.")
    return ArtifactVerdict("available")
