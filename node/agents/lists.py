"""The lists of the directory over all partitions. They are projections of the entries: a worker can rebuild them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import cast

from node.agents.model import LIVE, LIVENESS, Liveness
from node.agents.steps import agent_expire
from node.agents.store import HIDDEN_MS, SPARE_MS, UNLISTED_KEPT_MS
from node.store import Arg, RedisReply, Store, StoreUnavailable, ids, keys
from node.store.clock import now_ms
from node.store.decoding import scores_of
from node.store.lists import Listing, page_of, project, total_of
from node.store.unreadable import read_reachable

ENDS_AT_ONCE = 100
"""Maximum number of entries that one sweep looks at."""


LISTED_BY = ("listed_at", "ends_at", "shown", "liveness")
"""Fields of an entry that decide in which lists it belongs."""


class AgentLists:
    """Reads and projects the lists. Every method raises StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def newest(self, limit: int, offset: int, liveness: Liveness | None = None) -> tuple[list[str], int]:
        """Return a page of ids of entries, newest first, and the total number of entries."""
        listed = keys.agents_with(liveness) if liveness else keys.AGENTS
        return await page_of(self._store, listed, limit, offset)

    async def newest_live(self, most: int) -> list[str]:
        """Return the ids of the newest entries with each liveness of LIVE, `most` of each."""
        pages = await asyncio.gather(*(self.newest(most, 0, each) for each in LIVE))
        return [agent_id for agent_ids, _ in pages for agent_id in agent_ids]

    async def project(self, agent_ids: Sequence[str]) -> None:
        """Put entries into the lists, and remove those that have ended or are hidden."""
        await project(self._store, agent_ids, keys.agent, LISTED_BY, self._put, deciding=len(LISTED_BY))

    async def correct(self, agent_ids: Sequence[str]) -> None:
        """Remove entries from lists in which a reader found them although they are hidden or gone.

        The removal of entries that Redis has dropped is announced first, because a worker finds them by AGENT_ENDS,
        from which they are now removed.
        """
        scores = cast("list[bytes | None]", await self._store.command("ZMSCORE", keys.AGENT_ENDS, *agent_ids))
        ends = {name: int(float(score)) for name, score in zip(agent_ids, scores, strict=True) if score}
        await self._expire(ends)
        await self.project(agent_ids)

    async def _put(self, rows: Listing) -> None:
        commands: list[tuple[Arg, ...]] = []
        for agent_id, (listed_at, ends_at, shown, known) in rows.items():
            shown_at, liveness = shown and listed_at, (known or b"unknown").decode()
            places = [
                (keys.AGENT_ENDS, ends_at),
                (keys.AGENTS, shown_at),
                *((keys.agents_with(each), shown_at if each == liveness else None) for each in LIVENESS),
            ]
            commands += [("ZADD", listed, at, agent_id) if at else ("ZREM", listed, agent_id) for listed, at in places]
        await self._store.run_all(commands)

    async def sweep(self) -> list[str]:
        """Remove entries whose time is over. Returns the entries looked at, which must be projected again.

        Entries that are out of reach are left for later. A failure for one entry does not stop the others. Raises
        StoreUnavailable if no server can be reached.
        """
        due = await self._store.command(
            *("ZRANGE", keys.AGENT_ENDS, "-inf", await self.now(), "BYSCORE", "LIMIT", 0, ENDS_AT_ONCE, "WITHSCORES")
        )
        return await self._expire({name: int(score) for name, score in scores_of(due)})

    async def _expire(self, ends: Mapping[str, int]) -> list[str]:
        """Remove the entries whose time is over. `ends` has the end (ms) of each entry, according to the lists.

        Returns the entries that were looked at, without those that are out of reach or failed.
        """

        async def expire(agent_ids: Sequence[str]) -> Sequence[RedisReply | StoreUnavailable]:
            expiring = [
                agent_expire(
                    agent=keys.agent(each),
                    events=keys.events_of(each),
                    agent_id=each,
                    dropped=ends[each] + SPARE_MS,
                    spare=SPARE_MS,
                    kept=UNLISTED_KEPT_MS,
                )
                for each in agent_ids
            ]
            return await self._store.run_reachable(expiring)

        looked_at, _ = await read_reachable(list(ends), expire)
        return list(looked_at)

    async def figures(self) -> tuple[Mapping[Liveness, int], int, float]:
        """Return listed entries by liveness, the number of checks due, and how many seconds ago the last one ended."""
        now = await self.now()
        counts = await self._store.run_all([("ZCARD", keys.agents_with(each)) for each in LIVENESS])
        # A check under way is due again in less than HIDDEN_MS, in case its worker dies.
        schedules = map(keys.agents_due, range(ids.PARTITIONS))
        due = await total_of(self._store, (("ZCOUNT", each, "-inf", now + HIDDEN_MS) for each in schedules))
        last = cast("bytes | None", await self._store.command("GET", keys.LAST_CHECK))
        by_liveness = dict(zip(LIVENESS, cast("list[int]", counts), strict=True))
        return by_liveness, due, max(0, now - int(last or now)) / 1000

    async def now(self) -> int:
        """Return the time by the clock of Redis (ms)."""
        return await now_ms(self._store, keys.AGENTS)
