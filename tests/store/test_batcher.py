"""Changes that several requests make in one turn of the event loop are sent to Redis together."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from node.store import Store
from node.store.batcher import Batcher
from node.store.link import Link
from tests.store.conftest import Opener
from tests.support.servers import RedisServer, eventually


@pytest.fixture
def told() -> list[Sequence[str]]:
    """The batches that were sent."""
    return []


@pytest.fixture
def add(store: Store, told: list[Sequence[str]]) -> Callable[[str], None]:
    def tell(items: Sequence[str]) -> list[tuple[str, ...]]:
        told.append(items)
        return [("RPUSH", "list", *items)]

    return Batcher(store, tell).add


async def test_items_of_one_turn_are_told_together(
    store: Store, add: Callable[[str], None], told: list[Sequence[str]]
) -> None:
    for _ in range(2):
        add("a")
        add("b")
        assert await store.command("LLEN", "list") == 2 * len(told)
    assert told == [["a", "b"], ["a", "b"]]


async def test_who_asks_after_them_in_the_same_turn_sees_them(store: Store, add: Callable[[str], None]) -> None:
    store.send(("SET", "key", ""))  # so that something is waiting to be sent
    add("a")
    add("b")
    assert await store.command("LRANGE", "list", 0, -1) == [b"a", b"b"]


async def test_they_are_told_although_nobody_asks(store: Store, add: Callable[[str], None]) -> None:
    add("a")
    await eventually(lambda: store.stats.calls == 1)


async def test_items_of_several_turns_keep_their_order(store: Store, add: Callable[[str], None]) -> None:
    """This holds even while the connection accepts no data."""
    link = link_of(store)
    link.pause_writing()
    for item in "abc":
        add(item)
        await asyncio.sleep(0)
    asked = asyncio.create_task(store.command("LRANGE", "list", 0, -1))
    add("d")
    await asyncio.sleep(0)
    link.resume_writing()
    assert await asked == [b"a", b"b", b"c", b"d"]


async def test_who_asks_sees_them_also_after_earlier_ones_were_given_up(
    redis_server: RedisServer, open_store: Opener
) -> None:
    """Calls that were never sent must not count among those sent earlier, or later ones would be sent after the
    question.
    """
    store = await open_store(redis_server.url)
    link = link_of(store)
    batcher = Batcher[str](store, lambda items: [("RPUSH", "list", *items)])
    link.pause_writing()
    batcher.add("given up")
    await eventually(lambda: store.stats.calls == 1 and store.stats.in_flight == 0)
    asked = asyncio.create_task(store.command("LRANGE", "list", 0, -1))
    await asyncio.sleep(0)
    batcher.add("a")
    await asyncio.sleep(0)
    link.resume_writing()
    assert await asked == [b"a"]


def link_of(store: Store) -> Link:
    """Return the connection of a store."""
    link = store._connections()[0]._link  # pyright: ignore[reportPrivateUsage]
    assert link
    return link
