"""The lists of the directory over all partitions: projections of the entries, which a worker can make again."""

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
"""Entries that one sweep looks at."""


LISTED_BY = ("listed_at", "ends_at", "shown", "liveness")
"""Fields of an entry that say in which lists it is."""


class AgentLists:
    """Reads and projects the lists. Every method raises StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def newest(self, limit: int, offset: int, liveness: Liveness | None = None) -> tuple[list[str], int]:
        """Ids of entries, newest first, and how many there are."""
        listed = keys.agents_with(liveness) if liveness else keys.AGENTS
        return await page_of(self._store, listed, limit, offset)

    async def newest_live(self, most: int) -> list[str]:
        """Ids of the newest entries with each liveness of LIVE."""
        pages = await asyncio.gather(*(self.newest(most, 0, each) for each in LIVE))
        return [agent_id for agent_ids, _ in pages for agent_id in agent_ids]

    async def project(self, agent_ids: Sequence[str]) -> None:
        """Put entries into the lists, and take those that have ended or are hidden off them."""
        await project(self._store, agent_ids, keys.agent, LISTED_BY, self._put, deciding=len(LISTED_BY))

    async def correct(self, agent_ids: Sequence[str]) -> None:
        """Take entries off lists in which a reader has found them although they are hidden or gone.

        Those that Redis has dropped are announced first: a worker finds them by AGENT_ENDS, which they are taken off.
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
        """Remove entries whose time is over. Returns those looked at, which are to be projected anew.

        Those that are out of reach are left for later, and one on which that fails keeps no other. Raises
        StoreUnavailable if no server is there.
        """
        due = await self._store.command(
            *("ZRANGE", keys.AGENT_ENDS, "-inf", await self.now(), "BYSCORE", "LIMIT", 0, ENDS_AT_ONCE, "WITHSCORES")
        )
        return await self._expire({name: int(score) for name, score in scores_of(due)})

    async def _expire(self, ends: Mapping[str, int]) -> list[str]:
        """Remove the entries whose time is over; `ends` says when that was, as far as the lists know.

        Returns the entries that were looked at: not those out of reach, and not those on which this fails.
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
        """Listed entries by liveness; how many checks are due; how many seconds ago the last one ended."""
        now = await self.now()
        counts = await self._store.run_all([("ZCARD", keys.agents_with(each)) for each in LIVENESS])
        # What is under way is due again in less than that, should its worker die.
        schedules = map(keys.agents_due, range(ids.PARTITIONS))
        due = await total_of(self._store, (("ZCOUNT", each, "-inf", now + HIDDEN_MS) for each in schedules))
        last = cast("bytes | None", await self._store.command("GET", keys.LAST_CHECK))
        by_liveness = dict(zip(LIVENESS, cast("list[int]", counts), strict=True))
        return by_liveness, due, max(0, now - int(last or now)) / 1000

    async def now(self) -> int:
        """The time by the clock of Redis (ms)."""
        return await now_ms(self._store, keys.AGENTS)
