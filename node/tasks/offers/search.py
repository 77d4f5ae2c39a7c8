"""Searches offered contracts: for clients that read the hits, and for workers that claim the best match."""

import asyncio
from collections.abc import Awaitable, Callable

from node.common.shared_reads import SharedReads
from node.search.model import SearchQuery
from node.search.service import Charge, Search
from node.tasks.model import NextClaim
from node.tasks.offers.feed import Offer, OfferFeed, WantedOffers
from node.tasks.offers.hits import TaskHits
from node.tasks.offers.list import FILTERED
from node.tasks.offers.matching import OfferWaiter
from node.tasks.service import Tasks

MAX_HITS = 50
"""How many hits are searched for one that fits the worker: as many as a search may return."""

INTERVAL_SECONDS = 2.0
"""Seconds between two searches of one waiting worker: by then, a new offer can be found by meaning."""

CLIENT_INTERVAL_SECONDS = 1.0
"""Seconds between two searches of all workers that wait on one client's account: the default limit of its searches.
However many these workers are, one of them finds a new offer within INTERVAL_SECONDS if they ask for the same."""

REMEMBERED_CLIENTS = 10_000
"""How many clients' last searches are kept before those that no longer matter are dropped."""


class SearchThrottle:
    """Decides when a waiting worker may search again. Its request counts as one search only, but new offers, each of
    which makes it search, may come all the time.
    """

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        """Loop time of the last search that each client was granted."""

    def next(self, client: str, now: float, deadline: float) -> float:
        """Return when a worker that waits until `deadline` may search (loop time); this is after `deadline` if other
        workers of its client come first.
        """
        at = max(min(now + INTERVAL_SECONDS, deadline), self._last.get(client, 0.0) + CLIENT_INTERVAL_SECONDS)
        if at <= deadline:
            if len(self._last) >= REMEMBERED_CLIENTS:
                self._last = {known: last for known, last in self._last.items() if last + CLIENT_INTERVAL_SECONDS > now}
            self._last[client] = at
        return at


class OfferSearch:
    """The service behind POST /api/v1/tasks/search."""

    def __init__(self, tasks: Tasks, search: Search, feed: OfferFeed) -> None:
        self._tasks = tasks
        self._search = search
        self.feed = feed
        self.throttle = SearchThrottle()
        self._newest = SharedReads(self._read_newest)

    async def find(self, query: SearchQuery, client: str, charge: Charge) -> TaskHits:
        """Find offered contracts by meaning or text, best first. Raises Invalid, Refused `limit.waiting`,
        StoreUnavailable.
        """
        return TaskHits.of(
            *await self._search.search_with(query, client, charge, self._tasks.on_offer), self._tasks.base
        )

    async def nearest(self, new: NextClaim, query: str, client: str, charge: Charge) -> list[Offer]:
        """Return contracts that can be claimed and fit a worker, best match first. Raises as `find` does.

        If the search finds MAX_HITS matches and none of them fits the worker, only the newest offers that fit are
        searched. Otherwise, a client that offers work for nobody could hide all offers of others.
        """
        wanted = WantedOffers(frozenset(new.skills), frozenset(new.publisher_ids))
        matching = SearchQuery(query, MAX_HITS, new.threshold)
        ranked = await self._search.ranked(matching, client, charge)
        offers, _ = await self.feed.among(ranked)
        fitting = list(filter(wanted.fits, offers))
        if fitting or len(ranked) < MAX_HITS:
            return fitting
        newest, _ = await self._newest.get(None)
        if among := [offer.id for offer in newest if wanted.fits(offer)]:
            ranked = await self._search.ranked(matching, client, charge, among)
            offers, _ = await self.feed.among(ranked)
            fitting = list(filter(wanted.fits, offers))
        return fitting

    async def _read_newest(self, _: None) -> tuple[list[Offer], list[str]]:
        return await self.feed.listed(0, FILTERED)


class NearestOffers:
    """Gives a worker with a query its offers one after another, the best match first."""

    def __init__(self, search: OfferSearch, client: str, look: Callable[[], Awaitable[list[Offer]]]) -> None:
        """`look` searches for offers on the account of `client`."""
        self._search = search
        self._client = client
        self._look = look
        self._known: list[Offer] | None = None
        self._end: str | None = None
        """The end of the feed when it was last read."""
        self._settles = False
        """Whether an offer came so recently that its vectors may not be indexed yet."""

    async def next(self, seconds: float) -> Offer | None:
        """Return the best offer not given yet; None if there is none within `seconds`. Raises as `OfferSearch.find`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        if self._known is None:
            self._end = await self._search.feed.end()
            self._known = await self._look()
        while not self._known:
            with self._search.feed.wakeups.waiters.place(waiter := OfferWaiter(WantedOffers())) as may_wait:
                now = loop.time()
                if not may_wait or now >= deadline:
                    return None
                search_at = self._search.throttle.next(self._client, now, deadline)
                await waiter.next(min(search_at, deadline) - now)
                if waiter.is_released or search_at > deadline:
                    return None
            end = await self._search.feed.end()
            has_come, self._end = end != self._end, end
            if has_come or self._settles:
                self._known = await self._look()
            self._settles = has_come
        return self._known.pop(0)
