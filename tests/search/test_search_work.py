"""How a search yields to other requests and other searches, the more so the more it looks at."""

import asyncio

import pytest

from node.search import work
from node.search.work import LIGHT_CHARACTERS, REST_SECONDS, SLICE_CHARACTERS, SearchWork
from node.share.fair_semaphore import FairSemaphore
from tests.support.servers import PATIENCE


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A list of the times that a search has slept."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(work, "sleep", sleep)
    return slept


async def test_what_was_looked_at_is_counted(rests: list[float]) -> None:
    search = SearchWork("client", FairSemaphore(1))
    async with search.reading():
        for _ in range(3):
            await search.spend(SLICE_CHARACTERS - 1)
    assert search.characters == 3 * (SLICE_CHARACTERS - 1)
    assert rests == [0]


async def test_a_search_that_looks_at_much_rests_after_every_slice_of_it(rests: list[float]) -> None:
    search = SearchWork("client", FairSemaphore(1))
    async with search.reading():
        for _ in range(20):
            await search.spend(SLICE_CHARACTERS)
    light = LIGHT_CHARACTERS // SLICE_CHARACTERS
    assert rests == [0] * light + [REST_SECONDS] * (20 - light)


async def test_searches_have_their_slices_in_turn() -> None:
    readers, order = FairSemaphore(1), list[str]()

    async def search(client: str, slices: int) -> None:
        own = SearchWork(client, readers)
        async with own.reading():
            for _ in range(slices):
                order.append(client)
                await own.spend(SLICE_CHARACTERS)

    await asyncio.gather(search("long", 5), search("short", 2))
    assert order == ["long", "short", "long", "short", "long", "long", "long"]


async def test_a_search_that_is_given_up_leaves_its_place() -> None:
    readers = FairSemaphore(1)

    async def search(client: str) -> None:
        own = SearchWork(client, readers)
        async with own.reading():
            while True:
                await own.spend(SLICE_CHARACTERS)

    tasks = [asyncio.create_task(search(client)) for client in ("one", "other")]
    for _ in range(10):
        await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
        await asyncio.wait([task])
    async with asyncio.timeout(PATIENCE), readers.of("third"):
        pass
