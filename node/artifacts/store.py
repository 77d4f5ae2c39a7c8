"""Artifacts in Redis: a hash for each, in the partition of its client's site, where its bytes are counted too.

A site is an IPv6 /48, or any other address (`node.share.site`): so one script sees all that it holds. A partition's
count of bytes is exact. The node's total is the sum of 64 of them, read at one time: registrations that race each
other on different partitions may go over it by what they bring.
"""

from collections.abc import Sequence
from typing import Literal, cast

import msgspec

from node.artifacts.view import StoredArtifact
from node.common import counters
from node.config import Limit
from node.share.site import SITE_SHARE, site_of
from node.store import Store, WakeUps, ids, keys
from node.store.decoding import code_of, fields_of
from node.store.idempotency import IdempotencyKey
from node.store.limits import Taken, window
from node.store.scripts import script

REGISTER = script("artifact_register")
READ = script("artifact_read")
COMPLETE = script("artifact_complete")
SETTLE = script("artifact_settle")
WITHDRAW = script("artifact_withdraw")
DUE = script("artifact_due")
END = script("artifact_end")

COMPLETION_MS = (900 + 900 + 60) * 1000
"""Milliseconds from registration to completion: an upload URL lives 900 s, the longest upload takes as long,
and who uploaded gets a minute to say so. After it no upload can bring bytes any more."""

VERIFICATION_MS = 24 * 3600 * 1000
"""Milliseconds in which a completed artifact must be verified: longer than a blob store is out of reach."""

MEMORY_MS = 24 * 3600 * 1000
"""Milliseconds for which the manifest of an artifact without bytes is kept."""

ALL = "all"
"""The field of a partition's sums with the bytes of all clients."""

SITE_RESERVED = 4
"""How many times as much of what is left as one client a site may have reserved. By default that is half: the other
half is for all others."""

LEAST_RESERVED = 8 * 1024 * 1024
"""Bytes as which the smallest artifact counts until it is uploaded: its manifest costs memory, up to 3 kB until a day
after it has expired. Of a site that only registers those are 1,600 an hour, on an empty node of the default size."""

ALWAYS_RESERVED = 12 * LEAST_RESERVED
"""Bytes that anybody may have reserved so long as they fit, or one artifact of the largest size if that is more: as
many as an address registers in a minute, however little is left."""

Kind = Literal["registered", "replayed", "limited", "conflict", "full", "reserved", "quota"]


class ArtifactQuotas(msgspec.Struct, frozen=True):
    """What may be held."""

    client: int
    """Bytes, by one client address."""
    number: int
    """Artifacts, by one client address; 0 = any number."""
    share: int
    """Percent of what is left, by one client address in artifacts that are not uploaded yet."""
    always: int
    """Bytes in such artifacts whatever is left."""
    total: int
    """Bytes, on the whole node."""
    free: int | None
    """Bytes that the blob store has left, if it knows."""


class Registered(msgspec.Struct, frozen=True):
    """How a registration ended, and how the client now stands in its limit."""

    kind: Kind
    taken: Taken
    id: str
    row: StoredArtifact = StoredArtifact(0, {})
    """The artifact, when it is new."""
    held: int = 0
    """Bytes that the client or its site holds, when its quota is used up."""
    number: int = 0
    """Artifacts that it holds then."""


class ArtifactVerdict(msgspec.Struct, frozen=True):
    """What verifying an artifact showed."""

    status: Literal["available", "rejected", "registered"]
    """`registered`: there was nothing to verify yet."""
    reason: str = ""


class ArtifactStore:
    """Registers, changes, reads and ends artifacts."""

    def __init__(self, store: Store, idempotency_ttl: int, artifact_ttl: int) -> None:
        self._store = store
        self._idempotency_ms = idempotency_ttl * 1000
        self._life_ms = artifact_ttl * 1000

    @property
    def wakeups(self) -> WakeUps:
        """Where waiting readers are woken."""
        return self._store.wakeups

    async def register(
        self,
        client: str,
        limit: Limit,
        idempotency: IdempotencyKey | None,
        size: int,
        quotas: ArtifactQuotas,
        fields: Sequence[str],
    ) -> Registered:
        """Keep a manifest in the partition of the client's site, if it may hold it. Raises StoreUnavailable."""
        site = site_of(client)
        partition = ids.home_of(client)
        artifact_id = ids.unlisted_id(partition)
        artifact = keys.artifact(artifact_id)
        counts = await self._counts()
        reply = cast(
            "list[object]",
            await self._store.run(
                REGISTER,
                [
                    keys.rate(partition, "artifact", client),
                    keys.idempotency(partition, idempotency.scope) if idempotency else artifact,
                    artifact,
                    keys.artifacts(partition),
                    keys.artifact_bytes(partition),
                ],
                [
                    *window(limit),
                    idempotency.digest if idempotency else "",
                    self._idempotency_ms,
                    artifact_id,
                    client,
                    "" if site == client else site,
                    size,
                    max(size, LEAST_RESERVED),
                    quotas.client,
                    quotas.number,
                    quotas.share,
                    SITE_SHARE,
                    SITE_RESERVED * quotas.share,
                    quotas.always,
                    quotas.total - sum(counts) + counts[partition],
                    -1 if quotas.free is None else quotas.free,
                    COMPLETION_MS,
                    *fields,
                ],
            ),
        )
        kind, taken = cast("Kind", code_of(reply)), Taken.of(*reply[1:4])
        match kind, reply[4:]:
            case "registered", [int(now), flat]:
                counters.ARTIFACTS["registered"] += 1
                return Registered(kind, taken, artifact_id, StoredArtifact(now, fields_of(flat)))
            case "replayed", [bytes(original)]:
                return Registered(kind, taken, original.decode())
            case "quota", [int(held), int(number)]:
                return Registered(kind, taken, artifact_id, held=held, number=number)
            case _:
                return Registered(kind, taken, artifact_id)

    async def read(self, artifact_id: str) -> StoredArtifact:
        """An artifact; no fields for an unknown id. Raises StoreUnavailable."""
        now, flat = cast("list[object]", await self._store.run(READ, [keys.artifact(artifact_id)]))
        return StoredArtifact(cast("int", now), fields_of(flat))

    async def complete(self, artifact_id: str) -> StoredArtifact:
        """Have an artifact verified, if that is its next step; the artifact after. Raises StoreUnavailable."""
        partition = ids.partition_of_id(artifact_id)
        reply = await self._store.run(
            COMPLETE,
            [keys.artifact(artifact_id), keys.artifacts(partition), keys.events(partition)],
            [artifact_id, VERIFICATION_MS],
        )
        outcome, now, flat = cast("list[object]", reply)
        if outcome == b"verifying":
            counters.ARTIFACTS["verifying"] += 1
        return StoredArtifact(cast("int", now), fields_of(flat))

    async def settle(self, artifact_id: str, attempt: str, verdict: ArtifactVerdict) -> bool:
        """Record what verifying an attempt showed; False if that is no longer asked. Raises StoreUnavailable."""
        reply = await self._store.run(
            SETTLE,
            self._place_and_sums(artifact_id),
            [artifact_id, attempt, verdict.status, verdict.reason, self._life_ms],
        )
        return _counted(code_of(reply) == "settled", verdict.status)

    async def withdraw(self, artifact_id: str, reason: str) -> bool:
        """Reject an artifact whatever its state; False if it has no bytes to lose. Raises StoreUnavailable."""
        reply = await self._store.run(WITHDRAW, self._place(artifact_id), [artifact_id, reason])
        return _counted(code_of(reply) == "withdrawn", "rejected")

    async def due(self, partition: int, limit: int) -> list[str]:
        """Artifacts of a partition whose time is over. Raises StoreUnavailable."""
        reply = cast("list[bytes]", await self._store.run(DUE, [keys.artifacts(partition)], [limit]))
        return [name.decode() for name in reply]

    async def end(self, artifact_id: str) -> bool:
        """Give the bytes of an artifact, which were deleted, back to the quotas. Raises StoreUnavailable.

        False if its time is not over, or that was done before.
        """
        reply = await self._store.run(END, self._place_and_sums(artifact_id), [artifact_id, MEMORY_MS])
        return _counted(code_of(reply) == "ended", "ended")

    async def held(self, partition: int, limit: int, offset: int) -> list[str]:
        """Artifacts of a partition that count as bytes, those that end first before others. Raises StoreUnavailable."""
        found = await self._store.command("ZRANGE", keys.artifacts(partition), offset, offset + limit - 1)
        return [name.decode() for name in cast("list[bytes]", found)]

    async def total(self) -> int:
        """Bytes that all artifacts of the node hold. Raises StoreUnavailable."""
        return sum(await self._counts())

    async def _counts(self) -> list[int]:
        """Bytes held in each partition."""
        replies = await self._store.commands(
            [("HGET", keys.artifact_bytes(partition), ALL) for partition in range(ids.PARTITIONS)]
        )
        return [int(cast("bytes | None", reply) or 0) for reply in replies]

    def _place(self, artifact_id: str) -> list[str]:
        return [keys.artifact(artifact_id), keys.artifacts(ids.partition_of_id(artifact_id))]

    def _place_and_sums(self, artifact_id: str) -> list[str]:
        return [*self._place(artifact_id), keys.artifact_bytes(ids.partition_of_id(artifact_id))]


def _counted(happened: bool, state: str) -> bool:
    counters.ARTIFACTS[state] += happened
    return happened
