"""Workers that wait for what others can do cost their process little, however many they and the offers are."""

import asyncio
import gc
from collections import Counter
from typing import cast

import pytest
from pytest import MonkeyPatch

from node.store import Store, StoreUnavailable, keys
from node.store.decoding import code_of
from node.store.steps import Step
from node.tasks.matching import Matching
from node.tasks.offers import PAGE, Offer, OfferFeed, Wanted, offer_announce
from tests.support.fake_store import FakeStore
from tests.support.node_under_test import NodeUnderTest, until

WORKERS, OFFERS = 60, 4 * PAGE
AT_ONCE = 500


class MadeUpList(OfferFeed):
    """The list of offers is what the test says."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.offers: list[Offer] = []

    async def count(self) -> int:
        return len(self.offers)

    async def listed(self, start: int, count: int = PAGE) -> tuple[list[Offer], bool]:
        return self.offers[start : start + count], False


def told_of(task_id: str, at: int, keep: int) -> Step:
    return offer_announce(
        offers=keys.OFFERS, known=keys.KNOWN_OFFERS, id=task_id, at=at, keep=keep, publisher=b"desk", skills=b""
    )


async def test_each_offer_is_told_once_and_not_all_are_kept() -> None:
    store, keep = FakeStore(), 100
    offers = [told_of(f"t{at}", at, keep) for at in range(3 * keep)]
    last = offers[-keep:]
    outcomes = [code_of(await store.run(each)) for each in (*offers, *last, told_of("t299", 300, keep))]
    assert outcomes == ["told"] * len(offers) + ["known"] * len(last) + ["told"]
    known, length = await store.commands([("ZRANGE", keys.KNOWN_OFFERS, 0, -1), ("XLEN", keys.OFFERS)])
    assert known == [b"t%d" % at for at in range(2 * keep, 3 * keep)]
    assert keep <= cast("int", length) <= 2 * keep


async def test_a_list_that_fits_nobody_is_compared_some_at_a_time_and_once(
    node: NodeUnderTest, monkeypatch: MonkeyPatch
) -> None:
    """All of it used to be compared with all who wait in one go, again and again: a thousand workers and four thousand
    offers kept the process from everything else for half of each second."""
    monkeypatch.setattr("node.tasks.matching.FRESH_SECONDS", 0.0)  # whoever comes has the list read anew
    monkeypatch.setattr("node.tasks.matching.COMPARED_AT_ONCE", AT_ONCE)
    feed, compared, turn, looked = MadeUpList(node.store), Counter[int](), 0, 0
    fits = Wanted.fits

    def counted(wanted: Wanted, offer: Offer) -> bool:
        compared[turn] += 1
        return fits(wanted, offer)

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def wait() -> None:
        nonlocal looked
        async with matching.waiter(Wanted(frozenset({"writing"}))) as (waiter, _):
            looked += 1
            assert await waiter.next(60) is None

    async def all_wait() -> bool:
        return looked == WORKERS

    async def all_is_compared() -> bool:
        return compared.total() == OFFERS * (WORKERS + 1) + OFFERS

    monkeypatch.setattr(Wanted, "fits", counted)
    matching = Matching(feed)
    tasks = [asyncio.create_task(wait()) for _ in range(WORKERS)]
    await until(all_wait)
    tasks.append(asyncio.create_task(count_turns()))
    feed.offers = [Offer(f"offer {number}", "desk", frozenset({"law"})) for number in range(OFFERS)]
    async with matching.waiter(Wanted(frozenset({"speaking"}))):
        await until(all_is_compared)  # with those who wait; and who comes looks through all of it
        assert max(compared.values()) <= OFFERS + AT_ONCE + WORKERS
        before = compared.total()
        async with matching.waiter(Wanted(frozenset({"drawing"}))):
            assert compared.total() - before == OFFERS
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await matching.close()


async def test_a_view_that_fails_once_nobody_waits_for_it_any_more_is_no_error_in_the_log(node: NodeUnderTest) -> None:
    """asyncio logged it, with a traceback: "Task exception was never retrieved"."""
    begun, goes_on, said = asyncio.Event(), asyncio.Event(), list[str]()

    class FailingList(MadeUpList):
        async def count(self) -> int:
            begun.set()
            await goes_on.wait()
            raise StoreUnavailable("out of reach")

    async def wait() -> None:
        async with matching.waiter(Wanted()):
            pass

    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(str(context["message"])))
    matching = Matching(FailingList(node.store))
    waiting = asyncio.create_task(wait())
    await begun.wait()
    waiting.cancel()
    await asyncio.wait((waiting,))
    goes_on.set()
    await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable):
        await wait()  # it has a view of its own, and nobody knows the one before any more
    gc.collect()
    assert said == []
    await matching.close()
