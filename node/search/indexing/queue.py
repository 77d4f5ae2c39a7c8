"""The index queue: posts and entities to be embedded, kept in Redis so that nothing is lost when a worker dies.

An item is the name of a post or of a whole entity (`PostRef.name`). It is leased to a worker and removed when the work
is done. If the post changes meanwhile, or the lease ends, it is due again. There are two queues: `pending` for new
posts, in which the sites that the posts came from take turns, and `backlog` for entities to be reindexed.
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
"""Length of a lease, in milliseconds. Even on a slow machine, a worker needs a tenth of it for one batch."""

FRONT = -(2**52) - 1
"""Score of an item that was leased but not begun: less than the score of any turn."""


@step
def search_enqueue(*, queue: Key, turns: Key, posts: Rest) -> None:
    """Add posts to a queue so that their sites take turns."""


@step
def search_lease(*, queue: Key, most: int, lease_ms: int) -> None:
    """Lease items that are due."""


@step
def search_done(*, queue: Key, ends: int, names: Rest) -> None:
    """Remove items that are done."""


class LeasedPosts(msgspec.Struct, frozen=True):
    """Items that this worker has leased until `ends` (ms)."""

    queue: Key
    ends: int
    names: list[str]


class IndexQueue:
    """The queues `pending` and `backlog`. Every method raises StoreUnavailable."""

    def __init__(self, store: Store, keys: SearchKeys) -> None:
        self._store = store
        self._keys = keys

    async def add(self, posts: Iterable[tuple[str, str, int]]) -> None:
        """Add new posts to `pending`, each given as its site, its name, and its weight: the amount of text to embed.

        Sites take turns, so that a site that posts much delays only its own posts.
        """
        flat = [part for site, name, weight in posts for part in (site, weight, name)]
        await asyncio.gather(
            self._store.run(search_enqueue(queue=self._keys.pending, turns=self._keys.turns, posts=flat)),
            self._store.command("SPUBLISH", self._keys.pending, ""),
        )

    async def add_to_backlog(self, entities: Collection[str]) -> None:
        """Queue entities to be reindexed after everything in `pending`."""
        if entities:
            scored = [part for entity in entities for part in (0, entity)]
            await self._store.command("ZADD", self._keys.backlog, *scored)
            await self._store.command("SPUBLISH", self._keys.pending, "")

    async def lease(self, most: int) -> LeasedPosts | None:
        """Lease up to `most` items that are due, from `pending` first; None if none are due."""
        for queue in (self._keys.pending, self._keys.backlog):
            reply = await self._store.run(search_lease(queue=queue, most=most, lease_ms=LEASE_MS))
            _, ends, *names = cast("list[bytes]", reply)
            if names:
                return LeasedPosts(queue, int(ends), names_of(names))
        return None

    async def done(self, leased: LeasedPosts, names: Collection[str]) -> None:
        """Remove items that are indexed. If the backlog is empty then, wake the reconcilers, which wait for that."""
        if names:
            await self._store.run(search_done(queue=leased.queue, ends=leased.ends, names=list(names)))
        if leased.queue == self._keys.backlog and not await self._store.command("EXISTS", leased.queue):
            await self._store.command("SPUBLISH", self._keys.current, "")

    async def give_back(self, leased: LeasedPosts, names: Collection[str]) -> None:
        """Make leased items that were not begun due again at once."""
        if names:
            await self._store.command("ZADD", leased.queue, "XX", *(part for name in names for part in (FRONT, name)))

    async def lengths(self) -> tuple[int, int]:
        """Return the number of pending posts and the number of entities in the backlog."""
        pending, backlog = await self._store.run_all([("ZCARD", self._keys.pending), ("ZCARD", self._keys.backlog)])
        return cast("int", pending), cast("int", backlog)
