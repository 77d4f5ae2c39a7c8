"""The list of offers for agents that look for work: filtered, continued from a position, or with a wait.

A position (`since`) is an entry of the feed, and the contracts before it that were out of reach when their turn came.
These contracts are shown as soon as they can be read, so no offer is missed because a server was away.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from time import monotonic
from typing import NamedTuple

from node.common.shared_reads import SharedReads
from node.store.keys import OFFERS
from node.store.long_poll import wait_for_change
from node.tasks.model import MAX_LEFT_OUT, SEPARATOR, TaskPageQuery
from node.tasks.offers.feed import PAGE, Offer, OfferFeed
from node.tasks.reader import TaskReader
from node.tasks.view import StoredTask

FILTERED = 1000
"""How many of the newest offers a filter is applied to."""

REST = 2.0
"""Pause after a look at the newest offers, as a multiple of the look's duration. Looks are charged to nobody; with the
pause, they take at most a third of a process, however many clients ask."""

MAX_REST_SECONDS = 0.25
"""Longest such pause, in seconds, also when a look took long because Redis was out of reach."""


LOOK_BYTES = 256
"""Cost of looking at one entry of the feed (4 µs), in bytes of an answer."""

AddCost = Callable[[int], None]
"""Takes the cost of a request besides its answer, in bytes of an answer."""


class OfferRows(NamedTuple):
    """Some offers, and the position to go on from."""

    rows: dict[str, StoredTask]
    total: int
    next_since: str
    is_incomplete: bool
    """Whether offers that belong here are left out because they are out of reach."""
    has_more: bool = False
    """Whether the feed has entries after `next_since`, as far as is known."""


class OfferList:
    """Answers GET /api/v1/tasks?status=offered when it has a filter, `since` or `wait`."""

    def __init__(self, feed: OfferFeed, contracts: TaskReader) -> None:
        self._feed = feed
        self._contracts = contracts
        self._looks = SharedReads(self._look)
        self._tails = SharedReads(feed.tail)
        self._rests_until = 0.0
        """Monotonic time before which the list is not looked at again."""

    async def page(self, query: TaskPageQuery, add_cost: AddCost) -> OfferRows:
        """Return the offers that the query asks for; if it waits, as soon as there are some. Raises StoreUnavailable.

        `add_cost` is told the cost of the feed entries that were looked at, even if none of them fits.
        """
        since = query.since

        async def look() -> OfferRows:
            nonlocal since
            found = await (self._listed(query) if since is None else self._since(query, since, add_cost))
            since = found.next_since  # the list is read once, and from then on the feed
            return found

        return await wait_for_change(
            self._feed.wakeups,
            OFFERS,
            query.wait,
            look,
            lambda found: bool(found.rows),
            # The next entries are in the feed already, so no wake-up will come for them.
            lambda found: 0 if found.has_more else math.inf,
        )

    async def _listed(self, query: TaskPageQuery) -> OfferRows:
        """Return the newest offers that fit."""
        end, offers, unreachable = await self._looks.get(None)
        found = [offer.id for offer in offers if _fits(offer, query)]
        rows, unread = await self._read(found[query.offset : query.offset + query.limit])
        left_out = [*unread, *unreachable][:MAX_LEFT_OUT]
        return OfferRows(rows, len(found), since_of(end, left_out), is_incomplete=bool(left_out))

    async def _look(self, _: None) -> tuple[str, list[Offer], list[str]]:
        """Return the end of the feed, the newest offers, and the ids of those out of reach. Raises StoreUnavailable."""
        await asyncio.sleep(self._rests_until - monotonic())
        began = monotonic()
        try:
            end = await self._feed.end()  # before the list is read, so that nothing is missed in between
            return end, *(await self._feed.listed(0, FILTERED))
        finally:
            now = monotonic()
            self._rests_until = now + min(REST * (now - began), MAX_REST_SECONDS)

    async def _since(self, query: TaskPageQuery, since: str, add_cost: AddCost) -> OfferRows:
        """Return the offers that fit after a position: first those left out before it, then those in the feed."""
        entry, *left_out = since.split(SEPARATOR)
        entries, reached = await self._tails.get(entry)
        add_cost(LOOK_BYTES * (len(entries) + len(left_out)))
        back, still_out = await self._offered(left_out, query)
        rows = dict(islice(back.items(), query.limit))
        later = [*still_out, *islice(back, query.limit, None)]
        fitting = [(at, offer.id) for at, offer in entries if _fits(offer, query)]
        # Any of these may turn out to be out of reach, and then needs a place among those left out.
        room = min(query.limit - len(rows), MAX_LEFT_OUT - len(later))
        new = fitting[:room]
        if new != fitting:
            reached = new[-1][0] if new else entry
        found, newly_out = await self._offered([task_id for _, task_id in new], query)
        rows |= found
        has_more = reached != entry and (new != fitting or len(entries) == PAGE)
        next_since = since_of(reached, [*later, *newly_out])
        return OfferRows(rows, len(rows), next_since, is_incomplete=bool(still_out or newly_out), has_more=has_more)

    async def _offered(self, task_ids: Sequence[str], query: TaskPageQuery) -> tuple[dict[str, StoredTask], list[str]]:
        """Return the contracts that can be claimed and fit, and the ids of those out of reach."""
        offers, unreachable = await self._feed.among(task_ids)
        rows, unread = await self._read([offer.id for offer in offers if _fits(offer, query)])
        return rows, [*unreachable, *unread]

    async def _read(self, task_ids: Sequence[str]) -> tuple[dict[str, StoredTask], list[str]]:
        rows, unreachable = await self._contracts.listed_reachable(task_ids)
        return {each: row for each, row in rows.items() if row.can_be_claimed}, unreachable


def since_of(entry: str, left_out: Iterable[str]) -> str:
    """Return the position after that entry of the feed, at which the contracts `left_out` are still to be shown."""
    return SEPARATOR.join((entry, *dict.fromkeys(left_out)))


def _fits(offer: Offer, query: TaskPageQuery) -> bool:
    asked = query.skill is None or query.skill in offer.skills
    return asked and query.publisher_id in (None, offer.publisher_id)
