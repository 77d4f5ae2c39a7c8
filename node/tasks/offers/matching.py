"""Matches offers with the workers that wait for one in this process.

The waiting workers share one reader of the feed and one view of the list of offers, and an offer is handed to only one
of them at a time. So a waiting worker costs Redis nothing, and each process that has a worker for a new contract tries
to claim it once: one of these claims wins, and the workers that lost go on waiting. An offer here is only a hint: the
contract's own script decides who claims it.
"""

import asyncio
import random
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from time import monotonic

from node.common.pauses import paused
from node.common.shared_reads import SharedReads
from node.store import StoreUnavailable, keys
from node.tasks.offers.feed import PAGE, START, Offer, OfferFeed, WantedOffers

MAX_PAGES = 16
MAX_KNOWN = MAX_PAGES * PAGE
"""Most offers that a process knows. If there are more, it reads this many in a row, starting at a random page."""

FRESH_SECONDS = 1.0
"""Age in seconds up to which a read of the list serves new waiters, too; newer offers come with the feed."""

HANDED_SECONDS = 5.0
"""Seconds for which an offer that was handed out is not taken from the list again, since the list may lag behind."""

IDLE_SECONDS = 5.0
"""Seconds for which the feed is still read when nobody waits: a worker that polls is back within that time."""

COMPARED_AT_ONCE = 10_000
"""Comparisons of an offer with a waiting worker that are made without a pause, in some 2 ms."""

REST = 2.0
"""Pause after these comparisons, as a multiple of their duration: they take at most a third of the process, however
many offers and workers there are that do not fit each other."""

LISTEN_SECONDS = 2.0
"""Timeout of the first read of the feed, in seconds. Redis is faster unless it is out of reach."""

RETRY_SECONDS = 0.5
"""Seconds until the feed is read again after Redis was out of reach."""


class OfferWaiter:
    """A worker that waits for a contract."""

    def __init__(self, wanted: WantedOffers) -> None:
        self.wanted = wanted
        self.offer: Offer | None = None
        """The offer that was handed to this worker and that it has not taken yet."""
        self.taken: Offer | None = None
        """The offer that this worker took last, until it is known whether this worker or another has claimed it."""
        self.may_wait = True
        """Whether the worker may wait; false if too many already wait in this process."""
        self.is_released = False
        self._woken = asyncio.Event()

    def hear(self, message: bytes) -> None:
        """Stop waiting: the node is about to stop."""
        self.is_released = True
        self._woken.set()

    def give(self, offer: Offer) -> None:
        """Hand an offer over."""
        self.offer = offer
        self._woken.set()

    async def next(self, seconds: float) -> Offer | None:
        """Return the next offer; None if there is none within `seconds`."""
        if self.offer is None and not self.is_released and seconds > 0:
            self._woken.clear()
            async with paused():
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._woken.wait()
        self.taken, self.offer = self.offer, None
        return self.taken


class OfferMatching:
    """The offers that a process knows of, and the workers that wait in it."""

    def __init__(self, feed: OfferFeed) -> None:
        self._feed = feed
        self._waiters: dict[OfferWaiter, None] = {}
        """In the order in which they came."""
        self._known: dict[str, tuple[Offer, float]] = {}
        """Offers that have not been handed to anybody, and when they came (monotonic time)."""
        self._new: deque[Offer] = deque()
        """Known offers still to be compared with the waiting workers. The other known offers fit none of them: a
        worker is compared with all known offers when it comes."""
        self._handed: dict[str, float] = {}
        """When each offer was handed to a worker (monotonic time)."""
        self._seen_at = float("-inf")
        """Monotonic time of the last read of the list."""
        self._listing: asyncio.Task[None] | None = None
        self._comparing: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None
        self._listens = asyncio.Event()
        self._last = START
        """The entry up to which the feed has been read, once `_listens` is set."""
        self._pages = SharedReads(self._read_page)

    def __len__(self) -> int:
        """Number of waiting workers."""
        return len(self._waiters)

    @asynccontextmanager
    async def waiter(self, wanted: WantedOffers) -> AsyncGenerator[OfferWaiter]:
        """Yield a worker that is handed offers while the block runs. Raises StoreUnavailable."""
        waiter = OfferWaiter(wanted)
        with self._feed.wakeups.waiters.place(waiter) as waiter.may_wait:
            self._waiters[waiter] = None
            try:
                if self._following is None or self._following.done():
                    self._following = asyncio.create_task(self._follow_feed())
                await self._have_fresh_list()
                self._serve(waiter)
                yield waiter
            finally:
                del self._waiters[waiter]
                for offer in (waiter.taken, waiter.offer):
                    if offer:
                        self.offer(offer)

    async def next(self, waiter: OfferWaiter, seconds: float) -> Offer | None:
        """Return the next offer for a worker that has lost the one before; None if there is none within `seconds`.

        A worker that does not wait can still get any offer made before this call. Raises StoreUnavailable.
        """
        waiter.taken = None
        self._serve(waiter)
        if waiter.may_wait and seconds > 0:
            return await waiter.next(seconds)
        if waiter.offer is None:
            while await self._pages.get(None):
                pass
            self._serve(waiter)
        return await waiter.next(0)

    def offer(self, *offers: Offer) -> None:
        """Make offers known, even ones handed out before, and have each of them handed to a worker that it fits."""
        for offer in offers:
            self._handed.pop(offer.id, None)
            if len(self._known) >= MAX_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[offer.id] = offer, monotonic()
        if self._waiters:
            self._new.extendleft(reversed(offers))  # new offers do not queue behind a long list
            if self._comparing is None or self._comparing.done():
                self._comparing = asyncio.create_task(self._compare_new())

    async def close(self) -> None:
        """Cancel the background tasks."""
        for task in (self._following, self._listing, self._comparing):
            if task:
                task.cancel()
                await asyncio.wait((task,))

    def _serve(self, waiter: OfferWaiter) -> None:
        if waiter.offer:
            return
        offer = next((offer for offer, _ in self._known.values() if waiter.wanted.fits(offer)), None)
        if offer:
            self._hand(offer, waiter)

    async def _compare_new(self) -> None:
        """Compare the new offers with the waiting workers, some at a time."""
        began, compared = monotonic(), 0
        while self._new:
            offer = self._new.popleft()
            if offer.id in self._known:
                self._compare(offer)
                compared += len(self._waiters)
            if compared >= COMPARED_AT_ONCE:
                await asyncio.sleep(REST * (monotonic() - began))
                began, compared = monotonic(), 0

    def _compare(self, offer: Offer) -> None:
        """Hand an offer to the worker that has waited longest of those it fits, if there is one."""
        for waiter in self._waiters:
            if waiter.offer is None and waiter.wanted.fits(offer):
                self._hand(offer, waiter)
                return

    def _hand(self, offer: Offer, waiter: OfferWaiter) -> None:
        self._known.pop(offer.id, None)
        self._handed[offer.id] = monotonic()
        waiter.give(offer)

    async def _have_fresh_list(self) -> None:
        """Return when the list was read less than FRESH_SECONDS ago, or after a read of it. Raises StoreUnavailable."""
        if monotonic() - self._seen_at < FRESH_SECONDS:
            return
        if self._listing is None or self._listing.done():
            self._listing = asyncio.create_task(self._read_list())
            # If all workers that wait for the read go away, nobody looks at its failure, and asyncio must not log it.
            self._listing.add_done_callback(lambda listing: listing.cancelled() or listing.exception())
        # A worker that goes away must not cancel the read that others wait for.
        await asyncio.shield(self._listing)

    async def _read_list(self) -> None:
        # The feed must be followed before the list is read, so that no offer is missed in between.
        try:
            async with asyncio.timeout(LISTEN_SECONDS):
                await self._listens.wait()
        except TimeoutError:
            raise StoreUnavailable("the feed of offers cannot be read") from None
        total = await self._feed.count()
        starts = list(range(0, total, PAGE))
        turn = random.randrange(len(starts)) if len(starts) > MAX_PAGES else 0
        now = monotonic()
        self._handed = {name: at for name, at in self._handed.items() if now - at < HANDED_SECONDS}
        pages = [await self._feed.listed(start) for start in (starts[turn:] + starts[:turn])[:MAX_PAGES]]
        offers = [offer for page, _ in pages for offer in page]
        random.shuffle(offers)  # otherwise all processes would try the same ones first
        found = {offer.id: offer for offer in offers if offer.id not in self._handed}
        new = [offer for name, offer in found.items() if name not in self._known]
        # Offers that the feed brought meanwhile stay known: they may be missing in pages that were read before.
        self._known = {name: known for name, known in self._known.items() if name in found or known[1] >= now}
        self._new = deque(offer for offer in self._new if offer.id in self._known)
        self._seen_at = monotonic()
        self.offer(*new)

    async def _follow_feed(self) -> None:
        """Follow the feed for as long as anybody waits, and IDLE_SECONDS longer."""
        idle_since = monotonic()
        try:
            with await self._feed.wakeups.listen(keys.OFFERS) as listener:
                while self._waiters or monotonic() - idle_since < IDLE_SECONDS:
                    if self._waiters:
                        idle_since = monotonic()
                    try:
                        listener.forget()
                        if not self._listens.is_set():
                            self._last = await self._feed.end()
                            self._listens.set()
                        has_more = await self._pages.get(None)
                    except StoreUnavailable:
                        await asyncio.sleep(RETRY_SECONDS)
                        continue
                    if not has_more:
                        await listener.next(IDLE_SECONDS)
        finally:
            self._listens.clear()
            self._known, self._seen_at = {}, float("-inf")
            self._new.clear()

    async def _read_page(self, _: None) -> bool:
        """Make the next page of offers in the feed known. Returns whether the feed may have more."""
        if not self._listens.is_set():
            return False
        entries = await self._feed.after(self._last)
        if entries:
            self._last = entries[-1][0]
            self.offer(*(offer for _, offer in entries))
        return len(entries) == PAGE
