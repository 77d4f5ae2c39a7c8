"""Matches offers with the workers that wait for one in this process.

All of them share one reader of the feed and one view of the list of offers, and an offer is handed to only one of them
at a time. So a waiting worker costs Redis nothing, and a new contract is claimed once by each process that has a worker
for it: one of these claims wins, and the workers that lost wait on. Nothing here is more than a hint: the contract's
own script decides who claims it.
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
"""How many offers a process looks at. If there are more, it looks at this many in a row, from a random page on."""

FRESH_SECONDS = 1.0
"""A read of the list that is younger than this serves new waiters, too; newer offers are in the feed."""

HANDED_SECONDS = 5.0
"""How long an offer that was handed out is not taken from the list again, which may lag behind."""

IDLE_SECONDS = 5.0
"""How long the feed is read on when nobody waits: a worker that polls is back within that time."""

COMPARED_AT_ONCE = 10_000
"""Comparisons of an offer with a waiting worker that are made in one go, in some 2 ms."""

REST = 2.0
"""Pause after them, in multiples of what they took: they take a third of the process at most, however many offers there
are that fit none of however many workers."""

LISTEN_SECONDS = 2.0
"""How long the first read of the feed may take; Redis is faster unless it is out of reach."""

RETRY_SECONDS = 0.5
"""Pause before the feed is read again after Redis was out of reach."""


class OfferWaiter:
    """A worker that waits for a contract."""

    def __init__(self, wanted: WantedOffers) -> None:
        self.wanted = wanted
        self.offer: Offer | None = None
        """An offer that was handed to this worker, and that it has not taken yet."""
        self.taken: Offer | None = None
        """The offer that it took last, until it is known whether this worker or another has claimed it."""
        self.may_wait = True
        """Whether the process lets it wait, as long as not too many do."""
        self.is_released = False
        self._woken = asyncio.Event()

    def hear(self, message: bytes) -> None:
        """Wait no longer: the node is about to stop."""
        self.is_released = True
        self._woken.set()

    def give(self, offer: Offer) -> None:
        """Hand an offer over."""
        self.offer = offer
        self._woken.set()

    async def next(self, seconds: float) -> Offer | None:
        """The next offer; None if there is none within `seconds`."""
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
        """Offers that nobody has been handed, and when they came (monotonic time)."""
        self._new: deque[Offer] = deque()
        """Those of them that are still to be compared with the workers that wait. All others fit nobody who waits: who
        comes is served from all that are known."""
        self._handed: dict[str, float] = {}
        """When an offer was handed to a worker (monotonic time)."""
        self._seen_at = float("-inf")
        """Loop time of the last read of the list."""
        self._listing: asyncio.Task[None] | None = None
        self._comparing: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None
        self._listens = asyncio.Event()
        self._last = START
        """The entry up to which the feed has been read, once `_listens` is set."""
        self._pages = SharedReads(self._read_page)

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiters)

    @asynccontextmanager
    async def waiter(self, wanted: WantedOffers) -> AsyncGenerator[OfferWaiter]:
        """A worker that is handed offers while the block runs. Raises StoreUnavailable."""
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
        """The next offer for a worker that has lost the one before; None if there is none within `seconds`.

        A worker that does not wait is served with what was put on offer before this call, too. Raises StoreUnavailable.
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
        """Make offers known, even ones handed out before, and have each handed to a worker that it fits."""
        for offer in offers:
            self._handed.pop(offer.id, None)
            if len(self._known) >= MAX_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[offer.id] = offer, monotonic()
        if self._waiters:
            self._new.extendleft(reversed(offers))  # what has just come does not wait for a long list
            if self._comparing is None or self._comparing.done():
                self._comparing = asyncio.create_task(self._compare_new())

    async def close(self) -> None:
        """End what runs for those who wait."""
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
        """Compare the new offers with those who wait, some at a time."""
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
        """Hand an offer to whoever has waited longest of those it fits, if there is anybody."""
        for waiter in self._waiters:
            if waiter.offer is None and waiter.wanted.fits(offer):
                self._hand(offer, waiter)
                return

    def _hand(self, offer: Offer, waiter: OfferWaiter) -> None:
        self._known.pop(offer.id, None)
        self._handed[offer.id] = monotonic()
        waiter.give(offer)

    async def _have_fresh_list(self) -> None:
        """Return when the list was just read, or a read that was under way has ended. Raises StoreUnavailable."""
        if monotonic() - self._seen_at < FRESH_SECONDS:
            return
        if self._listing is None or self._listing.done():
            self._listing = asyncio.create_task(self._read_list())
            # If all who wait for it go away, nobody looks at a failure, and asyncio must not log it.
            self._listing.add_done_callback(lambda listing: listing.cancelled() or listing.exception())
        # A worker that goes away must not cancel the read that others wait for.
        await asyncio.shield(self._listing)

    async def _read_list(self) -> None:
        # Before the list is read the feed must be followed, so that no offer is missed in between.
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
        # What the feed brought meanwhile may not be in the pages that were read before.
        self._known = {name: known for name, known in self._known.items() if name in found or known[1] >= now}
        self._new = deque(offer for offer in self._new if offer.id in self._known)
        self._seen_at = monotonic()
        self.offer(*new)

    async def _follow_feed(self) -> None:
        """Follow the feed for as long as anybody waits, and a little longer."""
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
        """Make known what the feed has brought since it was last read, a page at most; whether it may have more."""
        if not self._listens.is_set():
            return False
        entries = await self._feed.after(self._last)
        if entries:
            self._last = entries[-1][0]
            self.offer(*(offer for _, offer in entries))
        return len(entries) == PAGE
