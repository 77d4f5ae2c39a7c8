"""The queues of posts to be indexed: leases, and changes of a post while it is leased."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from node.search.indexing.queue import IndexQueue, LeasedPosts
from node.store import Store, connect
from node.store.search_keys import BOARD_KEYS
from tests.support.node_under_test import until
from tests.support.servers import RedisServer


@pytest_asyncio.fixture
async def store(empty_redis: RedisServer) -> AsyncIterator[Store]:
    async with await connect(empty_redis.url, timeout=5.0, max_in_flight=64, required=True) as store:
        yield store


async def lease(queue: IndexQueue, most: int) -> LeasedPosts:
    """Lease due posts, of which there must be some."""
    leased = await queue.lease(most)
    assert leased
    return leased


async def came(queue: IndexQueue, *names: str, site: str = "somewhere", weight: int = 1) -> None:
    await queue.add((site, name, weight) for name in names)


async def test_what_is_taken_is_not_taken_twice_and_gone_when_done(store: Store) -> None:
    queue = IndexQueue(store, BOARD_KEYS)
    await came(queue, "a", "b", "c")
    first, second = await lease(queue, 2), await lease(queue, 2)
    assert (first.names, second.names, await queue.lease(2)) == (["a", "b"], ["c"], None)
    await queue.done(first, first.names)
    await queue.done(second, second.names)
    assert await queue.lengths() == (0, 0)


async def test_pending_goes_before_the_backlog(store: Store) -> None:
    queue = IndexQueue(store, BOARD_KEYS)
    await queue.add_to_backlog(["old"])
    await came(queue, "new")
    assert (await lease(queue, 5)).names == ["new"]
    taken = await lease(queue, 5)
    assert (taken.queue, taken.names) == (BOARD_KEYS.backlog, ["old"])


async def test_a_thread_that_changes_while_it_is_indexed_is_due_again(store: Store) -> None:
    queue = IndexQueue(store, BOARD_KEYS)
    await came(queue, "a")
    taken = await lease(queue, 1)
    await came(queue, "a")
    await queue.done(taken, taken.names)
    assert (await lease(queue, 1)).names == ["a"]


async def test_what_a_dead_worker_had_is_due_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.search.indexing.queue.LEASE_MS", -1)
    queue = IndexQueue(store, BOARD_KEYS)
    await came(queue, "a")
    lost = await lease(queue, 1)
    monkeypatch.undo()
    again = await lease(queue, 1)
    assert again.names == ["a"]
    await queue.done(lost, ["a"])
    assert await queue.lengths() == (1, 0), "a lease that has ended takes nothing out"
    await queue.done(again, ["a"])
    assert await queue.lengths() == (0, 0)


async def test_what_a_dead_worker_had_before_the_clock_was_set_back_is_due_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.search.indexing.queue.LEASE_MS", 86_400_000)  # as if it was leased in a day
    queue = IndexQueue(store, BOARD_KEYS)
    await came(queue, "a")
    lost = await lease(queue, 1)
    monkeypatch.setattr("node.search.indexing.queue.LEASE_MS", 1)

    async def is_due() -> bool:
        again = await queue.lease(1)
        return again is not None and again.names == lost.names and again.ends < lost.ends

    await until(is_due)


async def test_what_is_given_back_is_due_at_once_unless_it_is_done(store: Store) -> None:
    queue = IndexQueue(store, BOARD_KEYS)
    await came(queue, "a", "b")
    taken = await lease(queue, 2)
    await queue.done(taken, ["a"])
    await queue.give_back(taken, ["a", "b"])
    assert (await lease(queue, 2)).names == ["b"]


async def test_a_site_that_posts_much_waits_for_itself(store: Store) -> None:
    queue = IndexQueue(store, BOARD_KEYS)
    await came(queue, *(f"m{number:02}" for number in range(20)), site="much")
    await queue.done(taken := await lease(queue, 2), taken.names)
    await came(queue, "x1", "x2", site="little")
    await came(queue, "y1", site="less")
    names = (await lease(queue, 8)).names
    assert {"x1", "y1"} < set(names[:4])
    assert names.index("x2") <= 6
    assert len((await lease(queue, 50)).names) == 20 - 2 + 3 - 8


async def test_a_site_that_is_new_does_not_go_before_all_others_while_something_was_given_back(store: Store) -> None:
    queue = IndexQueue(store, BOARD_KEYS)
    for site in ("a", "b"):
        await came(queue, *(f"{site}{number:02}" for number in range(40)), site=site)
    taken = await lease(queue, 50)
    await queue.done(taken, taken.names[:40])
    await queue.give_back(taken, taken.names[40:])
    await came(queue, *(f"c{number:02}" for number in range(15)), site="c")
    names = (await lease(queue, 10 + 9)).names
    assert sorted(names[:10]) == sorted(taken.names[40:])
    assert sorted(name[0] for name in names[10:]) == sorted("abc" * 3)


async def test_what_takes_longer_counts_for_more(store: Store) -> None:
    queue = IndexQueue(store, BOARD_KEYS)
    await came(queue, "h0", "h1", "h2", site="huge", weight=30)
    await came(queue, *(f"s{number:02}" for number in range(30)), site="small")
    names = (await lease(queue, 100)).names
    assert names.index("h1") >= 30
    assert names[-1] == "h2"


async def test_what_waits_keeps_its_place_when_it_changes_again(store: Store) -> None:
    queue = IndexQueue(store, BOARD_KEYS)
    await came(queue, "a", "b")
    await came(queue, "a")
    assert (await lease(queue, 5)).names == ["a", "b"]


async def test_no_turn_is_remembered_once_nothing_waits(store: Store) -> None:
    queue = IndexQueue(store, BOARD_KEYS)
    await came(queue, "a", weight=1000)
    await queue.done(taken := await lease(queue, 5), taken.names)
    await came(queue, "c", site="elsewhere")
    await came(queue, "b")
    assert (await lease(queue, 5)).names == ["b", "c"], "both at the head, thus by their names"
