"""The queues of what is to be indexed: in Redis, so that a worker that dies loses nothing.

A post or a whole thread, known by its name, is leased to a worker and taken out when it is done; one that changes
meanwhile, or whose worker is gone, is due again. `pending` holds what has just come, in turns of the sites that it
came from; `backlog` holds what is indexed anew.
"""

import asyncio
from collections.abc import Collection, Iterable
from typing import cast

import msgspec

from node.store import Store, keys
from node.store.scripts import script

ENQUEUE = script("search_enqueue")
LEASE = script("search_lease")
DONE = script("search_done")

LEASE_MS = 60_000
"""What a worker takes at a time is done in a tenth of that, on a slow machine too."""


FIRST = -(2**52) - 1
"""Of all turns: what was taken and not begun."""


class Leased(msgspec.Struct, frozen=True):
    """What this worker has to itself until `ends`, ms."""

    queue: str
    ends: int
    names: list[str]


class Queue:
    """Both queues."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def changed(self, came: Iterable[tuple[str, str, int]]) -> None:
        """These have come: of each the site it came from, its name and how much there is to embed. The sites take
        turns, so that one which posts much waits for itself. Raises StoreUnavailable.
        """
        posts = [part for site, name, weight in came for part in (site, weight, name)]
        await asyncio.gather(
            self._store.run(ENQUEUE, [keys.SEARCH_PENDING, keys.SEARCH_TURNS], posts),
            self._store.command("SPUBLISH", keys.SEARCH_PENDING, ""),
        )

    async def anew(self, threads: Collection[str]) -> None:
        """These threads are to be indexed anew, after all that has come. Raises StoreUnavailable."""
        if threads:
            await self._store.command(
                "ZADD", keys.SEARCH_BACKLOG, *(part for thread in threads for part in (0, thread))
            )
            await self._store.command("SPUBLISH", keys.SEARCH_PENDING, "")

    async def take(self, most: int) -> Leased:
        """What is due, pending before backlog; maybe nothing. Raises StoreUnavailable."""
        for queue in (keys.SEARCH_PENDING, keys.SEARCH_BACKLOG):
            reply = await self._store.run(LEASE, [queue], [most, LEASE_MS])
            _, ends, *names = cast("list[bytes]", reply)
            if names:
                break
        return Leased(queue, int(ends), [name.decode() for name in names])

    async def done(self, leased: Leased, names: Collection[str]) -> None:
        """These are indexed. Whoever waits for the backlog to be empty is woken. Raises StoreUnavailable."""
        if names:
            await self._store.run(DONE, [leased.queue], [leased.ends, *names])
        if leased.queue == keys.SEARCH_BACKLOG and not await self._store.command("EXISTS", leased.queue):
            await self._store.command("SPUBLISH", keys.SEARCH_LIVE, "")

    async def give_back(self, leased: Leased, names: Collection[str]) -> None:
        """These were not begun and are due again. Raises StoreUnavailable."""
        if names:
            await self._store.command("ZADD", leased.queue, "XX", *(part for name in names for part in (FIRST, name)))

    async def waiting(self) -> tuple[int, int]:
        """How many posts are pending, and how many threads in the backlog. Raises StoreUnavailable."""
        pending = await self._store.command("ZCARD", keys.SEARCH_PENDING)
        return cast("int", pending), cast("int", await self._store.command("ZCARD", keys.SEARCH_BACKLOG))
