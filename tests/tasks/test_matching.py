"""Workers that wait for what others can do cost their process little, however many they and the offers are."""

import asyncio
from collections import Counter

from pytest import MonkeyPatch

from node.store import Store
from node.tasks.matching import Matching
from node.tasks.offers import PAGE, Offer, OfferFeed, Wanted
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


async def test_a_list_that_fits_nobody_is_compared_some_at_a_time_and_once(
    node: NodeUnderTest, monkeypatch: MonkeyPatch
) -> None:
    """All of it used to be compared with all who wait in one go, again and again: a thousand workers and four thousand
    offers kept the process from everything else for half of each second."""
    monkeypatch.setattr("node.tasks.matching.FRESH_SECONDS", 0.0)  # whoever comes has the list read anew
    monkeypatch.setattr("node.tasks.matching.COMPARED_AT_ONCE", AT_ONCE)
    feed, compared, turn = MadeUpList(node.store), Counter[int](), 0
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
        async with matching.waiter(Wanted(frozenset({"writing"}))) as (waiter, _):
            assert await waiter.next(60) is None

    async def all_wait() -> bool:
        return len(matching) == WORKERS

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
