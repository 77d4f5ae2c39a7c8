"""The list of offers for agents that look for work: filtered, from where they last stopped, or with a wait."""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from node.common.shared_reads import SharedReads
from node.store.keys import OFFERS
from node.store.long_poll import wait_for_change
from node.tasks.model import TaskPageQuery
from node.tasks.offers.feed import PAGE, Offer, OfferFeed
from node.tasks.reader import TaskReader
from node.tasks.view import StoredTask

FILTERED = 1000
"""How many of the newest offers a filter looks at."""

REST = 2.0
"""Pause after a look at them, in multiples of what the look took. Looks are charged to nobody; with the pause they take
a third of a process at most, however many ask for them."""

LONGEST_REST = 0.25
"""Seconds; the longest pause, also when a look took long because Redis was out of reach."""


LOOK_BYTES = 256
"""Cost of an entry of the feed that is looked at (4 µs), in bytes of an answer."""

Charge = Callable[[int], None]
"""Takes what a request costs beside its answer, in bytes of one."""


class OfferRows(NamedTuple):
    """Some offers, and where to go on."""

    rows: dict[str, StoredTask]
    total: int
    next_since: str
    is_incomplete: bool
    has_more: bool = False
    """Whether the feed goes on after `next_since`, as far as is known."""


class OfferList:
    """Answers GET /api/v1/tasks?status=offered when it has a filter, `since` or `wait`."""

    def __init__(self, feed: OfferFeed, contracts: TaskReader) -> None:
        self._feed = feed
        self._contracts = contracts
        self._looks = SharedReads(self._look)
        self._tails = SharedReads(feed.tail)
        self._rests_until = 0.0
        """Loop time before which the list is not looked at again."""

    async def page(self, query: TaskPageQuery, charge: Charge) -> OfferRows:
        """What the query asks for; as soon as there is something, if it waits. Raises StoreUnavailable.

        `charge` is told of the entries of the feed that were looked at, of which none may fit.
        """
        since = query.since

        async def look() -> OfferRows:
            nonlocal since
            found = await (self._listed(query) if since is None else self._since(query, since, charge))
            if not found.is_incomplete:
                since = found.next_since  # the list is looked through once, then the feed
            return found

        return await wait_for_change(
            self._feed.wakeups,
            OFFERS,
            query.wait,
            look,
            lambda found: bool(found.rows),
            # What follows is in the feed already, so no wake-up will come for it.
            lambda found: 0 if found.has_more and not found.is_incomplete else math.inf,
        )

    async def _listed(self, query: TaskPageQuery) -> OfferRows:
        since, offers, is_incomplete = await self._looks.get(None)
        found = [offer.id for offer in offers if _fits(offer, query)]
        rows, lacks = await self._offered(found[query.offset : query.offset + query.limit])
        return OfferRows(rows, len(found), since, is_incomplete=is_incomplete or lacks)

    async def _look(self, _: None) -> tuple[str, list[Offer], bool]:
        """The end of the feed, the newest offers, and whether some could not be read. Raises StoreUnavailable."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._rests_until - loop.time())
        began = loop.time()
        try:
            end = await self._feed.end()  # before the list is read, so that nothing is missed in between
            return end, *(await self._feed.listed(0, FILTERED))
        finally:
            took = loop.time() - began
            self._rests_until = loop.time() + min(REST * took, LONGEST_REST)

    async def _since(self, query: TaskPageQuery, since: str, charge: Charge) -> OfferRows:
        entries, since = await self._tails.get(since)
        charge(LOOK_BYTES * len(entries))
        fitting = [(entry, offer.id) for entry, offer in entries if _fits(offer, query)][: query.limit]
        is_full = len(fitting) == query.limit
        if entries:
            since, _ = fitting[-1] if is_full else entries[-1]
        rows, lacks = await self._offered([task_id for _, task_id in fitting])
        return OfferRows(rows, len(rows), since, is_incomplete=lacks, has_more=is_full or len(entries) == PAGE)

    async def _offered(self, task_ids: Sequence[str]) -> tuple[dict[str, StoredTask], bool]:
        """Those of the contracts that can be claimed, and whether some are out of reach."""
        rows, lacking = await self._contracts.listed_reachable(task_ids)
        return {task_id: row for task_id, row in rows.items() if row.can_be_claimed}, lacking > 0


def _fits(offer: Offer, query: TaskPageQuery) -> bool:
    asked = query.skill is None or query.skill in offer.skills
    return asked and query.publisher_id in (None, offer.publisher_id)
