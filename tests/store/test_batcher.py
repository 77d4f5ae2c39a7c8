"""What the requests of one turn of the event loop have to tell Redis, told together."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from node.store import Store
from node.store.batcher import Batcher


@pytest.fixture
def told() -> list[Sequence[str]]:
    """What was told together."""
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
    store.send(("SET", "key", ""))  # so something is to be sent already
    add("a")
    add("b")
    assert await store.command("LRANGE", "list", 0, -1) == [b"a", b"b"]


async def test_they_are_told_although_nobody_asks(store: Store, add: Callable[[str], None]) -> None:
    add("a")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert store.stats.in_flight == 1


async def test_items_of_several_turns_keep_their_order(store: Store, add: Callable[[str], None]) -> None:
    """Also while the connection takes nothing."""
    connection = store._connections()[0]  # pyright: ignore[reportPrivateUsage]
    assert connection._link  # pyright: ignore[reportPrivateUsage]
    connection._link.pause_writing()  # pyright: ignore[reportPrivateUsage]
    for item in "abc":
        add(item)
        await asyncio.sleep(0)
    asked = asyncio.create_task(store.command("LRANGE", "list", 0, -1))
    add("d")
    await asyncio.sleep(0)
    connection._link.resume_writing()  # pyright: ignore[reportPrivateUsage]
    assert await asked == [b"a", b"b", b"c", b"d"]
