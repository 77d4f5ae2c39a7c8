"""Workers that wait cost their process little, however many workers and unsuitable offers there are."""

import asyncio
import gc
from collections import Counter
from typing import cast

import pytest
from pytest import MonkeyPatch

from node.store import Store, StoreUnavailable, keys
from node.store.decoding import code_of
from node.store.steps import Step
from node.tasks import steps
from node.tasks.offers.feed import PAGE, Offer, OfferFeed, WantedOffers
from node.tasks.offers.matching import OfferMatching
from tests.support.fake_store import FakeStore
from tests.support.node_under_test import NodeUnderTest
from tests.support.other_turns import OtherTurns
from tests.support.servers import PATIENCE, eventually

WORKERS, OFFERS = 60, 4 * PAGE
AT_ONCE = 500


class MadeUpList(OfferFeed):
    """A list of offers that the test sets."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.offers: list[Offer] = []
        self.views = 0

    async def count(self) -> int:
        self.views += 1
        return len(self.offers)

    async def listed(self, start: int, count: int = PAGE) -> tuple[list[Offer], list[str]]:
        return self.offers[start : start + count], []


def told_of(task_id: str, at: int, keep: int) -> Step:
    return steps.offer_announce(
        offers=keys.OFFERS, known=keys.KNOWN_OFFERS, id=task_id, at=at, keep=keep, publisher=b"desk", skills=b""
    )


async def test_each_offer_is_told_once_and_not_all_are_kept() -> None:
    store, keep = FakeStore(), 100
    offers = [told_of(f"t{at}", at, keep) for at in range(3 * keep)]
    last = offers[-keep:]
    outcomes = [code_of(await store.run(each)) for each in (*offers, *last, told_of("t299", 300, keep))]
    assert outcomes == ["told"] * len(offers) + ["known"] * len(last) + ["told"]
    known, length = await store.run_all([("ZRANGE", keys.KNOWN_OFFERS, 0, -1), ("XLEN", keys.OFFERS)])
    assert known == [b"t%d" % at for at in range(2 * keep, 3 * keep)]
    assert keep <= cast("int", length) <= 2 * keep


async def test_a_list_that_fits_nobody_is_compared_some_at_a_time_and_once(
    node: NodeUnderTest, monkeypatch: MonkeyPatch
) -> None:
    """Otherwise the whole list is compared with all waiting workers in one go, again and again: a thousand workers and
    four thousand offers would block the process for half of each second.
    """
    # So that every newcomer lets the list be read again.
    monkeypatch.setattr("node.tasks.offers.matching.FRESH_SECONDS", 0.0)
    monkeypatch.setattr("node.tasks.offers.matching.COMPARED_AT_ONCE", AT_ONCE)
    feed, compared, others, have_looked = MadeUpList(node.store), Counter[int](), OtherTurns(), 0
    fits = WantedOffers.fits

    def counted(wanted: WantedOffers, offer: Offer) -> bool:
        compared[others.count] += 1
        return fits(wanted, offer)

    async def wait() -> None:
        nonlocal have_looked
        async with matching.waiter(WantedOffers(frozenset({"writing"}))) as waiter:
            have_looked += 1
            assert await waiter.next(60) is None

    monkeypatch.setattr(WantedOffers, "fits", counted)
    matching = OfferMatching(feed)
    tasks = [asyncio.create_task(wait()) for _ in range(WORKERS)]
    await eventually(lambda: have_looked == WORKERS)  # at the empty list
    feed.offers = [Offer(f"offer {number}", "desk", frozenset({"law"})) for number in range(OFFERS)]
    async with others, matching.waiter(WantedOffers(frozenset({"speaking"}))):
        # Each offer is compared with every waiting worker, and the newcomer goes through the whole list.
        await eventually(lambda: compared.total() == OFFERS * (WORKERS + 1) + OFFERS)
        assert max(compared.values()) <= OFFERS + AT_ONCE + WORKERS
        before = compared.total()
        async with matching.waiter(WantedOffers(frozenset({"drawing"}))):
            assert compared.total() - before == OFFERS
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await matching.close()


async def test_a_view_that_fails_once_nobody_waits_for_it_any_more_is_no_error_in_the_log(node: NodeUnderTest) -> None:
    """Otherwise asyncio logs a traceback: "Task exception was never retrieved"."""
    begun, goes_on, said = asyncio.Event(), asyncio.Event(), list[str]()

    class FailingList(MadeUpList):
        async def count(self) -> int:
            begun.set()
            await goes_on.wait()
            raise StoreUnavailable("out of reach")

    async def wait() -> None:
        async with matching.waiter(WantedOffers()):
            pass

    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(str(context["message"])))
    matching = OfferMatching(FailingList(node.store))
    waiting = asyncio.create_task(wait())
    await begun.wait()
    waiting.cancel()
    await asyncio.wait((waiting,))
    goes_on.set()
    await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable):
        await wait()  # this call has a view of its own, and nobody refers to the previous one any more
    gc.collect()
    assert said == []


ANYTHING = WantedOffers(frozenset())


class Broken(OfferFeed):
    """A feed that fails the next `failures` reads."""

    failures = 0

    async def after(self, entry: str) -> list[tuple[str, Offer]]:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("gone for a moment")
        return await super().after(entry)


async def test_who_waits_while_redis_is_out_of_reach_is_given_what_came_meanwhile(node: NodeUnderTest) -> None:
    feed = Broken(node.store)
    matching = OfferMatching(feed)
    async with matching.waiter(ANYTHING) as waiter:
        feed.failures = 1
        await node.store.run(told_of("t1", 1, 100))
        offer = await waiter.next(PATIENCE)
        assert offer
        assert offer.id == "t1"
    await matching.close()


class Held(MadeUpList):
    """A list that is read only once a test allows it."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.is_asked, self.is_free = asyncio.Event(), asyncio.Event()

    async def count(self) -> int:
        self.is_asked.set()
        await self.is_free.wait()
        return await super().count()


async def test_who_goes_away_takes_the_list_from_nobody_who_waits_for_it(node: NodeUnderTest) -> None:
    feed = Held(node.store)
    feed.offers = [Offer("t1", "desk", frozenset())]
    matching = OfferMatching(feed)

    async def first_offer() -> Offer | None:
        async with matching.waiter(ANYTHING) as waiter:
            return await waiter.next(PATIENCE)

    impatient, patient = (asyncio.create_task(first_offer()) for _ in range(2))
    await feed.is_asked.wait()
    impatient.cancel()
    await asyncio.wait((impatient,))
    feed.is_free.set()
    assert await patient == feed.offers[0]
    await matching.close()


@pytest.mark.parametrize("seconds", [0.0, 1000.0])
async def test_what_was_handed_out_is_for_a_while_not_taken_from_the_list_again(
    node: NodeUnderTest, monkeypatch: MonkeyPatch, seconds: float
) -> None:
    # So that every newcomer lets the list be read again.
    monkeypatch.setattr("node.tasks.offers.matching.FRESH_SECONDS", 0.0)
    monkeypatch.setattr("node.tasks.offers.matching.HANDED_SECONDS", seconds)
    feed = MadeUpList(node.store)
    feed.offers = [Offer("t1", "desk", frozenset())]
    matching = OfferMatching(feed)
    async with matching.waiter(ANYTHING) as first:
        assert await first.next(PATIENCE) == feed.offers[0]
        assert await matching.next(first, 0) is None  # as if another process had been faster
        async with matching.waiter(ANYTHING) as second:
            given = [await each.next(0) for each in (first, second)]
            assert list(filter(None, given)) == ([] if seconds else feed.offers)
    await matching.close()


async def test_an_offer_that_a_worker_has_not_taken_yet_is_not_lost_to_the_next_one(node: NodeUnderTest) -> None:
    feed = MadeUpList(node.store)
    feed.offers = [Offer(f"t{number}", "desk", frozenset()) for number in range(2)]
    matching = OfferMatching(feed)
    async with matching.waiter(ANYTHING) as waiter:
        given: set[str] = set()
        for _ in feed.offers:
            offer = await matching.next(waiter, 0)
            assert offer
            given.add(offer.id)
        assert given == {"t0", "t1"}
    await matching.close()


async def test_workers_that_come_one_after_the_other_share_a_view_of_the_list(
    node: NodeUnderTest, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr("node.tasks.offers.matching.FRESH_SECONDS", 1000.0)
    feed = MadeUpList(node.store)
    matching = OfferMatching(feed)
    for _ in range(3):
        async with matching.waiter(ANYTHING):
            assert feed.views == 1
    await matching.close()
