"""The queues of threads to be indexed: a lease, and what happens to a thread that has one."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from node.board.queue import Queue
from node.store import Store, connect, keys
from tests.servers import RedisServer


@pytest_asyncio.fixture
async def store(empty_redis: RedisServer) -> AsyncIterator[Store]:
    store = await connect(empty_redis.url, timeout=5.0, max_in_flight=64, required=True)
    yield store
    await store.close()


async def test_what_is_taken_is_not_taken_twice_and_gone_when_done(store: Store) -> None:
    queue = Queue(store)
    await queue.changed(["a", "b", "c"])
    first, second, third = await queue.take(2), await queue.take(2), await queue.take(2)
    assert (first.names, second.names, third.names) == (["a", "b"], ["c"], [])
    await queue.done(first, first.names)
    await queue.done(second, second.names)
    assert await queue.waiting() == (0, 0)


async def test_pending_goes_before_the_backlog(store: Store) -> None:
    queue = Queue(store)
    await queue.anew(["old"])
    await queue.changed(["new"])
    assert (await queue.take(5)).names == ["new"]
    taken = await queue.take(5)
    assert (taken.queue, taken.names) == (keys.SEARCH_BACKLOG, ["old"])


async def test_a_thread_that_changes_while_it_is_indexed_is_due_again(store: Store) -> None:
    queue = Queue(store)
    await queue.changed(["a"])
    taken = await queue.take(1)
    await queue.changed(["a"])
    await queue.done(taken, taken.names)
    assert (await queue.take(1)).names == ["a"]


async def test_what_a_dead_worker_had_is_due_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.board.queue.LEASE_MS", -1)
    queue = Queue(store)
    await queue.changed(["a"])
    lost = await queue.take(1)
    monkeypatch.undo()
    again = await queue.take(1)
    assert again.names == ["a"]
    await queue.done(lost, ["a"])
    assert await queue.waiting() == (1, 0), "a lease that has ended takes nothing out"
    await queue.done(again, ["a"])
    assert await queue.waiting() == (0, 0)


async def test_what_is_given_back_is_due_at_once_unless_it_is_done(store: Store) -> None:
    queue = Queue(store)
    await queue.changed(["a", "b"])
    taken = await queue.take(2)
    await queue.done(taken, ["a"])
    await queue.give_back(taken, ["a", "b"])
    assert (await queue.take(2)).names == ["b"]
