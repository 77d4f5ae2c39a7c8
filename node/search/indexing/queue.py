"""The queues of what is to be embedded: in Redis, so that a worker that dies loses nothing.

A post or a whole entity, known by its name (`PostRef.name`), is leased to a worker and taken out when it is done; if it
changes meanwhile, or its worker is gone, it is due again. `pending` holds what has just come, in turns of the sites
that it came from; `backlog` holds what is reindexed.
"""

import asyncio
from collections.abc import Collection, Iterable
from typing import cast

import msgspec

from node.store import Store
from node.store.decoding import names_of
from node.store.search_keys import SearchKeys
from node.store.steps import Key, Rest, step

LEASE_MS = 60_000
"""How long a lease lasts. A worker does what it leases together in a tenth of that, even on a slow machine."""

FRONT = -(2**52) - 1
"""Score of what was leased and not begun: before all turns."""


@step
def search_enqueue(*, queue: Key, turns: Key, posts: Rest) -> None:
    """Queue posts so that their sites take turns."""


@step
def search_lease(*, queue: Key, most: int, lease_ms: int) -> None:
    """Lease what is due."""


@step
def search_done(*, queue: Key, ends: int, names: Rest) -> None:
    """Take out what is done."""


class LeasedPosts(msgspec.Struct, frozen=True):
    """What this worker has leased until `ends` (ms)."""

    queue: Key
    ends: int
    names: list[str]


class IndexQueue:
    """Both queues. Every method raises StoreUnavailable."""

    def __init__(self, store: Store, keys: SearchKeys) -> None:
        self._store = store
        self._keys = keys

    async def add(self, posts: Iterable[tuple[str, str, int]]) -> None:
        """Queue new posts, each given as site, name, and how much of it there is to embed.

        Sites take turns, so that one that posts much delays only itself.
        """
        flat = [part for site, name, weight in posts for part in (site, weight, name)]
        await asyncio.gather(
            self._store.run(search_enqueue(queue=self._keys.pending, turns=self._keys.turns, posts=flat)),
            self._store.command("SPUBLISH", self._keys.pending, ""),
        )

    async def add_to_backlog(self, entities: Collection[str]) -> None:
        """Queue entities to be reindexed, after everything pending."""
        if entities:
            scored = [part for entity in entities for part in (0, entity)]
            await self._store.command("ZADD", self._keys.backlog, *scored)
            await self._store.command("SPUBLISH", self._keys.pending, "")

    async def lease(self, most: int) -> LeasedPosts | None:
        """What is due, pending before backlog; None if nothing is."""
        for queue in (self._keys.pending, self._keys.backlog):
            reply = await self._store.run(search_lease(queue=queue, most=most, lease_ms=LEASE_MS))
            _, ends, *names = cast("list[bytes]", reply)
            if names:
                return LeasedPosts(queue, int(ends), names_of(names))
        return None

    async def done(self, leased: LeasedPosts, names: Collection[str]) -> None:
        """Take out what is indexed. Whoever waits for the backlog to be empty is woken."""
        if names:
            await self._store.run(search_done(queue=leased.queue, ends=leased.ends, names=list(names)))
        if leased.queue == self._keys.backlog and not await self._store.command("EXISTS", leased.queue):
            await self._store.command("SPUBLISH", self._keys.current, "")

    async def give_back(self, leased: LeasedPosts, names: Collection[str]) -> None:
        """Make due at once what was not begun."""
        if names:
            await self._store.command("ZADD", leased.queue, "XX", *(part for name in names for part in (FRONT, name)))

    async def lengths(self) -> tuple[int, int]:
        """How many posts are pending, and how many entities in the backlog."""
        pending, backlog = await self._store.run_all([("ZCARD", self._keys.pending), ("ZCARD", self._keys.backlog)])
        return cast("int", pending), cast("int", backlog)
