"""Artifacts in Redis: one hash for each, in the partition of its client's site, where its bytes are also counted.

A site is an IPv6 /48, or a single IPv4 address (`node.share.site`). All artifacts of a site are in one partition, so
that one script sees everything that the site holds. The count of a partition is exact. The total of the node is the sum
of 64 counts, read before the script runs, so simultaneous registrations in different partitions may exceed it by their
own bytes.
"""

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal, cast

import msgspec

from node.artifacts.model import LAST, ArtifactStatus
from node.artifacts.record import StoredArtifact
from node.common import counters
from node.common.refusal import Refused
from node.config import Limit
from node.share.capacity import share_of
from node.share.site import SITE_SHARE, site_of
from node.store import Store, ids, keys
from node.store.cursor import TimeCursor
from node.store.decoding import flat_of
from node.store.due import find_due
from node.store.idempotency import IdempotencyKey, Once
from node.store.limits import DAY_MS, RateLimit, counted
from node.store.long_poll import another_status, wait_for_change
from node.store.steps import Key, Rest, Step, step

COMPLETION_MS = (900 + 900 + 60) * 1000
"""Milliseconds from registration until an artifact must be completed: an upload URL lives 900 s, the longest upload
takes 900 s, and the client has a minute to say that it is done. After that, no upload can bring bytes any more."""

VERIFICATION_MS = DAY_MS
"""Milliseconds from completion until an artifact must be verified: longer than an outage of the blob store lasts."""

MANIFEST_KEPT_MS = DAY_MS
"""Milliseconds for which a manifest outlives the bytes, so that readers learn what became of the artifact."""

NEVER = 2**53
"""A time, in milliseconds since 1970, beyond any at which an artifact ends."""

PAGE_SIZE = 100
"""Artifacts read at a time for the operator."""

ALL = "all"
"""The field of a partition's sums that has the bytes of all clients."""

SITE_RESERVED = 4
"""Share of the remaining space that a site may have reserved, as a multiple of one client's share. By default that
comes to half of the space, and the other half stays for all other sites."""

LEAST_RESERVED = 8 * 1024 * 1024
"""Minimum, in bytes, that an artifact counts for until it is uploaded, because its manifest costs memory: up to 3 kB
until a day after it has expired. On an empty node of default size, a site that only registers can keep 1,600 an
hour."""

ALWAYS_RESERVED = 12 * LEAST_RESERVED
"""Bytes that any client may have reserved as long as it may hold them, however little space remains; or the largest
size of an artifact, if that is more. This suffices for everything that an address may register in a minute."""

REFUSALS = {
    b"conflict": "idempotency.conflict",
    b"full": "store.full",
    b"reserved": "artifact.reserved",
    b"quota": "artifact.quota",
}
"""Error codes for the refusals of `artifact_register`."""


class ArtifactKeys(msgspec.Struct, frozen=True, gc=False):
    """The arguments of each step that changes an artifact: its keys and its id."""

    artifact: Key
    due: Key
    artifact_id: str

    @classmethod
    def of(cls, artifact_id: str) -> "ArtifactKeys":
        return cls(keys.artifact(artifact_id), keys.artifacts(ids.partition_of_id(artifact_id)), artifact_id)


@step
def artifact_register(
    *,
    artifact: ArtifactKeys,
    rate: Key,
    once: Once,
    sums: Key,
    limit: Limit,
    client: str,
    site: str,
    size: int,
    weight: int,
    client_bytes: int,
    client_number: int,
    client_share: int,
    site_times: int,
    site_share: int,
    always: int,
    capacity: int,
    free: int,
    life: int,
    fields: Rest,
) -> None:
    """Register an artifact of a client: count it and keep it, once for each Idempotency-Key."""


@step
def artifact_read(*, artifact: Key) -> None:
    """Read an artifact as it is now."""


@step
def artifact_complete(*, artifact: ArtifactKeys, events: Key, life: int) -> None:
    """Record that a client says that it has uploaded an artifact."""


@step
def artifact_settle(
    *, artifact: ArtifactKeys, sums: Key, events: Key, number: str, verdict: str, reason: str, life: int
) -> None:
    """Record the verdict on an attempt to verify an artifact."""


@step
def artifact_withdraw(*, artifact: ArtifactKeys, reason: str) -> None:
    """Reject an artifact that the operator removes."""


@step
def artifact_end(*, artifact: ArtifactKeys, sums: Key, life: int) -> None:
    """End an artifact whose bytes were deleted."""


class ArtifactQuotas(msgspec.Struct, frozen=True):
    """What clients may hold."""

    client: int
    """Bytes that one client address may hold while half of the space is free. With less free space, it may hold
    fewer."""
    number: int
    """Artifacts that one client address may hold; 0 = any number."""
    reserved_percent: int
    """Percent of the remaining space that one client address may have reserved by artifacts not uploaded yet."""
    reserved_always: int
    """Bytes that one client address may have reserved by such artifacts, however little space remains."""
    total: int
    """Bytes that the whole node may hold."""
    free: int | None
    """Bytes that the blob store can still take; None if it does not know."""

    def client_now(self, held: int) -> int:
        """Return the bytes that one client address may hold while all clients together hold `held`."""
        room = self.total if self.free is None else min(self.total, held + self.free)
        return share_of(self.client, held / room if room else 1.0)


class ArtifactVerdict(msgspec.Struct, frozen=True):
    """The verdict on an attempt to verify an artifact."""

    status: Literal["available", "rejected", "registered"]
    """`registered`: nothing was uploaded yet."""
    reason: str = ""


class ArtifactStore:
    """Registers, changes, reads and ends artifacts."""

    def __init__(self, store: Store, idempotency_ttl: int, artifact_ttl: int) -> None:
        self._store = store
        self._idempotency_ms = idempotency_ttl * 1000
        self._life_ms = artifact_ttl * 1000

    async def register(
        self,
        rate: RateLimit,
        idempotency: IdempotencyKey | None,
        size: int,
        quotas: ArtifactQuotas,
        fields: Mapping[str, str],
    ) -> tuple[StoredArtifact, bool]:
        """Keep an artifact of `size` bytes if its client may hold it. Returns it, and whether it was kept before.

        Raises Refused `limit.exceeded`, `store.full`, `artifact.reserved`, `artifact.quota`, `idempotency.conflict`,
        `artifact.unknown` (the earlier one is gone), StoreUnavailable.
        """
        client, site = rate.client, site_of(rate.client)
        partition = ids.home_of(client)
        artifact_id = ids.unlisted_id(partition)
        new = ArtifactKeys.of(artifact_id)
        counts = await self._bytes()
        client_bytes = quotas.client_now(sum(counts))
        reply = await self._store.run(
            artifact_register(
                artifact=new,
                rate=keys.rate(partition, "artifact", client),
                once=Once.of(idempotency, partition, new.artifact, self._idempotency_ms),
                sums=keys.artifact_bytes(partition),
                limit=rate.limit,
                client=client,
                site="" if site == client else site,
                size=size,
                weight=max(size, LEAST_RESERVED),
                client_bytes=client_bytes,
                client_number=quotas.number,
                client_share=quotas.reserved_percent,
                site_times=SITE_SHARE,
                site_share=SITE_RESERVED * quotas.reserved_percent,
                always=quotas.reserved_always,
                capacity=quotas.total - sum(counts) + counts[partition],
                free=-1 if quotas.free is None else quotas.free,
                life=COMPLETION_MS,
                fields=flat_of(fields),
            )
        )
        kind, outcome = counted(rate, reply)
        match kind, outcome:
            case b"registered", [now, row]:
                counters.ARTIFACTS["registered"] += 1
                stored, replayed = StoredArtifact.of(artifact_id, now, row), False
            case b"replayed", [original]:
                stored, replayed = await self.read(original.decode()), True
            case b"quota", [size_held, number]:
                raise Refused(REFUSALS[kind], held=size_held, number=number, most=client_bytes)
            case _:
                raise Refused(REFUSALS[kind])
        if stored is None:
            raise Refused("artifact.unknown")
        return stored, replayed

    async def read(self, artifact_id: str) -> StoredArtifact | None:
        """Return an artifact; None for an unknown id. Raises StoreUnavailable."""
        return (await self.read_many([artifact_id]))[0]

    async def read_many(self, artifact_ids: Sequence[str]) -> list[StoredArtifact | None]:
        """Return artifacts in the order of their ids, None for an unknown id. Raises StoreUnavailable."""
        replies = await self._store.run_all(artifact_read(artifact=keys.artifact(each)) for each in artifact_ids)
        rows = cast("list[tuple[int, object]]", replies)
        return [StoredArtifact.of(each, now, row) for each, (now, row) in zip(artifact_ids, rows, strict=True)]

    async def wait(self, artifact_id: str, seconds: float, known: ArtifactStatus | None) -> StoredArtifact | None:
        """Return an artifact once its status is another than `known`, or after `seconds`. Raises StoreUnavailable."""
        is_news = another_status(known, settled=("available",), last=LAST)
        return await wait_for_change(
            self._store.wakeups,
            keys.artifact(artifact_id),
            seconds,
            lambda: self.read(artifact_id),
            is_new=lambda stored: stored is None or is_news(stored.status),
            lasts=lambda stored: stored.lasts if stored else math.inf,
        )

    async def complete(self, artifact_id: str) -> StoredArtifact | None:
        """Have an artifact verified, if that is its next step. Returns it as it then is. Raises StoreUnavailable."""
        reply = await self._store.run(
            artifact_complete(
                artifact=ArtifactKeys.of(artifact_id), events=keys.events_of(artifact_id), life=VERIFICATION_MS
            )
        )
        kind, now, row = cast("list[Any]", reply)
        counters.ARTIFACTS["verifying"] += kind == b"verifying"
        return StoredArtifact.of(artifact_id, now, row)

    async def settle(self, artifact_id: str, attempt: str, verdict: ArtifactVerdict) -> bool:
        """Record the verdict on an attempt. Returns False if that verdict is no longer needed, or if another attempt
        follows because nothing was uploaded. Raises StoreUnavailable.
        """
        settling = artifact_settle(
            artifact=ArtifactKeys.of(artifact_id),
            sums=_sums(artifact_id),
            events=keys.events_of(artifact_id),
            number=attempt,
            verdict=verdict.status,
            reason=verdict.reason,
            life=self._life_ms,
        )
        return await self._change(settling, b"settled", verdict.status)

    async def withdraw(self, artifact_id: str, reason: str) -> bool:
        """Reject an artifact, whatever its status. Returns False if it is unknown, or already rejected or expired.

        Raises StoreUnavailable.
        """
        withdrawal = artifact_withdraw(artifact=ArtifactKeys.of(artifact_id), reason=reason)
        return await self._change(withdrawal, b"withdrawn", "rejected")

    async def due(self, limit: int) -> list[str]:
        """Return the ids of artifacts whose time is over, at most `limit` from each partition that can be read.

        Raises StoreUnavailable if no server is there.
        """
        return await find_due(self._store, [keys.artifacts(each) for each in range(ids.PARTITIONS)], limit)

    async def end(self, artifact_id: str) -> bool:
        """Give the bytes of an artifact back to the quotas, after they were deleted. Raises StoreUnavailable.

        Returns False if the time of the artifact is not over, or if its bytes were given back before.
        """
        ending = artifact_end(artifact=ArtifactKeys.of(artifact_id), sums=_sums(artifact_id), life=MANIFEST_KEPT_MS)
        return await self._change(ending, b"ended", "ended")

    async def kept(self) -> AsyncIterator[StoredArtifact]:
        """Yield all artifacts whose bytes are counted, by partition, and within one by the time at which they end.

        An artifact whose end is postponed in the meantime may come twice. Raises StoreUnavailable.
        """
        for partition in range(ids.PARTITIONS):
            cursor = TimeCursor(self._store, keys.artifacts(partition))
            while found := await cursor.next(NEVER, PAGE_SIZE):
                for stored in await self.read_many(found):
                    if stored:
                        yield stored

    async def total(self) -> int:
        """Return the bytes that all artifacts of the node hold. Raises StoreUnavailable."""
        return sum(await self._bytes())

    async def _bytes(self) -> list[int]:
        """Return the bytes held in each partition."""
        replies = await self._store.run_all(
            ("HGET", keys.artifact_bytes(partition), ALL) for partition in range(ids.PARTITIONS)
        )
        return [int(cast("bytes | None", reply) or 0) for reply in replies]

    async def _change(self, change: Step, happened: bytes, state: str) -> bool:
        """Run a step. If it changed anything, count that under the artifact's new `state`. Returns whether it did."""
        (kind,) = cast("list[bytes]", await self._store.run(change))
        counters.ARTIFACTS[state] += kind == happened
        return kind == happened


def _sums(artifact_id: str) -> Key:
    return keys.artifact_bytes(ids.partition_of_id(artifact_id))
