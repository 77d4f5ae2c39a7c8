"""The limits and quotas of clients in Redis: requests in a window, things held at a time, bytes in a day.

A limit is counted exactly, by a log of the times of the last accepted requests (DESIGN 6).
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, cast

import msgspec

from node.common.refusal import Refused
from node.config import Limit
from node.share.site import SITE_SHARE, site_of
from node.store import Store, ids, keys
from node.store.clock import now_ms
from node.store.decoding import names_of
from node.store.errors import OutcomeUnknown, StoreUnavailable
from node.store.idempotency import IdempotencyKey
from node.store.steps import Key, Step, step

DAY_MS = 86_400_000

COUNTED_FOR_SITES = ("search", "agent", "claim")
"""Limits that also apply to the client's site, with SITE_SHARE times the count. Searches and posted agents occupy
workers before their cost is known, an agent's URL for up to 30 s; claims take contracts away from everybody else.
(`feedback_add` counts sites itself.)"""

ENTITIES: dict[str, Callable[[str], Key]] = {"reply": keys.thread, "line": keys.session}
"""Key functions of the entities with limits of their own (`LimitStore.take_of`), by kind of request."""


class QuotaArguments(msgspec.Struct, frozen=True, gc=False):
    """The arguments of a step that takes a place in the quotas of a client and of its site."""

    own: Key
    site: Key
    most: int
    """Most things that the client may have; 0: no limit."""
    site_most: int

    @classmethod
    def of(cls, kind: str, client: str, most: int) -> "QuotaArguments":
        """Return the arguments for things of a kind."""
        own, site, _ = _places(ids.home_of(client), kind, client)
        return cls(own, site, most, most * SITE_SHARE)


@step
def limit_take(*, rate: Key, site: Key, limit: Limit, site_count: int) -> None:
    """Take a place in a client's limit, and in that of its site."""


@step
def limit_take_of(*, entity: Key, rate: Key, limit: Limit) -> None:
    """Take a place in the limit that a client has for one entity."""


@step
def limit_refund(*, rate: Key, site: Key, at: int) -> None:
    """Stop counting a request in a client's limit, and in that of its site."""


@step
def quota_take(
    *,
    rate: Key,
    quota: QuotaArguments,
    all: Key,  # noqa: A002 - the script's word
    limit: Limit,
    life: int,
    name: str,
) -> None:
    """Take a place in a client's limit, in its quota and in that of its site."""


@step
def bytes_take(*, mine: Key, site: Key, size: int, owed: int, most: int, site_most: int, window: int) -> None:
    """Count bytes for a client and for its site."""


class LimitState(msgspec.Struct, frozen=True):
    """The state of a client's limit after a request. A place is free again after `reset` seconds."""

    allowed: bool
    remaining: int
    reset: float
    at: int = 0
    """When the place was taken (ms). Identifies the request for a refund."""

    @classmethod
    def of(cls, allowed: Any, remaining: Any, reset_ms: Any, at: Any = 0) -> "LimitState":
        """Return the state in a script's reply, whose members are integers."""
        return cls(allowed, remaining, reset_ms / 1000, at)


class RateLimit(Protocol):
    """The limit in which a script counts a request. The caller of the script calls `settle` with the result."""

    @property
    def client(self) -> str: ...

    @property
    def limit(self) -> Limit: ...

    def settle(self, taken: LimitState) -> None:
        """Take the state of the limit after the request. Raises Refused `limit.exceeded`."""
        ...


class QuotaLimit(RateLimit, Protocol):
    """A RateLimit for a request that also takes a place in a quota of its client."""

    @property
    def most(self) -> int:
        """Most things of the kind that the client may have; 0: no limit."""
        ...


def counted(rate: RateLimit, reply: Any) -> tuple[bytes, list[Any]]:
    """Settle `rate` with the counts in a script's reply. Returns the word of the reply, and what follows the counts.

    A reply that is only a word means that the entity does not exist; such a request is not counted. Raises Refused
    `limit.exceeded`.
    """
    word, *counts = reply
    if counts:
        rate.settle(LimitState.of(*counts[:3]))
    return word, counts[3:]


class Quota(NamedTuple):
    """A place in a quota: one of the things of a kind that a client may have at a time. Expires or is released."""

    kind: str
    client: str
    name: str


class ByteUse(NamedTuple):
    """Bytes of one client to count: `size` may be refused; `owed` is stored already and counted in any case."""

    client: str
    size: int
    owed: int


class BytesRefused(NamedTuple):
    """Why a client may store no more bytes."""

    wait: float
    """Seconds until there is room again."""
    of_site: bool
    """Whether the client's site has no room, not just the client."""


class LimitStore:
    """Counts requests that write nothing else in the client's partition, so that no other script can count them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def take(self, kind: str, client: str, limit: Limit) -> LimitState:
        """Take a place in a limit. Raises StoreUnavailable."""
        rate, site = _rates(kind, client)
        taking = limit_take(rate=rate, site=site, limit=limit, site_count=limit.count * SITE_SHARE)
        return LimitState.of(*cast("list[int]", await self._store.run(taking)))

    async def take_of(self, kind: str, entity_id: str, client: str, limit: Limit) -> LimitState | None:
        """Take a place in a client's limit for one entity. Returns None if there is no such entity.

        Raises StoreUnavailable.
        """
        taking = limit_take_of(
            entity=ENTITIES[kind](entity_id),
            rate=keys.rate(ids.partition_of_id(entity_id), f"{kind}:{entity_id}", client),
            limit=limit,
        )
        taken = cast("list[int]", await self._store.run(taking))
        return LimitState.of(*taken) if taken else None

    async def refund(self, kind: str, client: str, taken: LimitState) -> None:
        """Give back the place that `take` has taken for a request. Raises StoreUnavailable."""
        rate, site = _rates(kind, client)
        await self._store.run(limit_refund(rate=rate, site=site, at=taken.at))

    async def is_known(self, key: IdempotencyKey) -> bool:
        """Return whether a request with this Idempotency-Key has created something in the key's own partition.

        Raises StoreUnavailable.
        """
        return await self._store.command("EXISTS", keys.idempotency(key.partition, key.scope)) == 1

    async def take_quota(
        self, kind: str, client: str, limit: Limit, most: int, life_ms: int, *, for_node: bool, label: str = ""
    ) -> tuple[Quota, LimitState]:
        """Take a place in a limit, and one in a quota of `most` things, which expires after `life_ms`.

        `for_node`: also record the thing in the total of all clients. `label`: prefix of the thing's name, for the
        operator. Raises Refused `quota.<kind>` if the quota is full, StoreUnavailable.
        """
        partition = ids.home_of(client)
        quota = Quota(kind, client, label + os.urandom(4).hex())
        counted_in = QuotaArguments.of(kind, client, most)
        taking = quota_take(
            rate=keys.rate(partition, kind, client),
            quota=counted_in,
            all=keys.places_of_all(partition, kind) if for_node else counted_in.own,
            limit=limit,
            life=life_ms,
            name=quota.name,
        )
        try:
            outcome, *rest = cast("list[Any]", await self._store.run(taking))
        except OutcomeUnknown:  # the place may be taken, but nothing will be created for it
            with suppress(StoreUnavailable):
                await self.release(quota)
            raise
        if outcome == b"quota":
            raise Refused(f"quota.{kind}", retry_after=rest[0] / 1000, most=most)
        return quota, LimitState.of(*rest)

    async def things(self, kind: str) -> list[str]:
        """Return the names of all things of a kind whose total is kept, for the operator. Raises StoreUnavailable."""
        now = await now_ms(self._store)
        found = await self._store.run_all(
            [("ZRANGE", keys.places_of_all(each, kind), now, "+inf", "BYSCORE") for each in range(ids.PARTITIONS)]
        )
        return [name for names in found for name in names_of(names)]

    async def release(self, quota: Quota) -> None:
        """Release a place before it expires. Does nothing if the place has no name. Raises StoreUnavailable."""
        if not quota.name:
            return
        places = _places(ids.home_of(quota.client), quota.kind, quota.client)
        await self._store.run_all([("ZREM", place, quota.name) for place in places])

    async def extend(self, quota: Quota, ends_at: int) -> None:
        """Extend a place until `ends_at` (ms), unless it has expired. Raises StoreUnavailable."""
        places = _places(ids.home_of(quota.client), quota.kind, quota.client)
        await self._store.run_all(
            command
            for place in places
            for command in (("ZADD", place, "XX", "GT", ends_at, quota.name), ("PEXPIREAT", place, ends_at, "GT"))
        )

    async def take_bytes(self, uses: Sequence[ByteUse], most: int) -> list[BytesRefused | None]:
        """Count bytes of clients, each of which may store `most` in 24 hours. Raises StoreUnavailable.

        Returns for each use None, or why it is refused: `size` is too large (and is not counted), or `size` is 0 and
        no bytes are left.
        """
        replies = cast("list[list[int]]", await self._store.run_all(_bytes_of(use, most) for use in uses))
        return [BytesRefused(over[0] / 1000, over[1] == 1) if over else None for _, *over in replies]


def _rates(kind: str, client: str) -> tuple[Key, Key]:
    """Return the keys that count the requests of a client: for itself, and for its site if that has a limit, too."""
    partition = ids.home_of(client)
    rate = keys.rate(partition, kind, client)
    site = site_of(client) if kind in COUNTED_FOR_SITES else client
    return rate, rate if site == client else keys.rate(partition, kind, site)


def _bytes_of(use: ByteUse, most: int) -> Step:
    partition = ids.home_of(use.client)
    mine, site = (keys.byte_count(partition, name) for name in (use.client, site_of(use.client)))
    return bytes_take(
        mine=mine, site=site, size=use.size, owed=use.owed, most=most, site_most=most * SITE_SHARE, window=DAY_MS
    )


def _places(partition: int, kind: str, client: str) -> tuple[Key, Key, Key]:
    """Return the keys that count the things of a client: for itself, for its site, and for the node."""
    own, of_site = keys.places(partition, kind, client), keys.places(partition, kind, site_of(client))
    return own, of_site, keys.places_of_all(partition, kind)
