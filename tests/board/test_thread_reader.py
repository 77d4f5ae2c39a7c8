"""Threads of a real board, as the search reads them."""

from collections.abc import AsyncIterator

import pytest_asyncio

from node.board.thread_reader import ThreadReader
from node.store import keys
from tests.search.searching import SearchableBoard, searchable
from tests.support.servers import RedisServer

UNKNOWN = "0190a000-0000-7000-8000-000000000001"


@pytest_asyncio.fixture
async def board(empty_redis: RedisServer) -> AsyncIterator[SearchableBoard]:
    async with searchable(empty_redis.url) as board:
        yield board


async def test_posts_are_read_with_the_status_of_their_thread(board: SearchableBoard) -> None:
    thread = await board.post("Sourdough schedule", "When should I mix the dough?")
    closed = await board.post("From Vienna to Lisbon", "Night trains are welcome.")
    await board.reply(thread, "In the evening.")
    await board.reply(closed, "There is one to Zurich.")
    await board.close(closed)
    reader = ThreadReader(board.store)
    assert await reader.posts([(thread, 1), (thread, 0), (thread, 2), (closed, 1), (closed, 0), (UNKNOWN, 0)]) == [
        ("open", "", "In the evening."),
        ("open", "Sourdough schedule", "When should I mix the dough?"),
        ("open", "", ""),
        ("closed", "", "There is one to Zurich."),
        ("closed", "From Vienna to Lisbon", "Night trains are welcome."),
        ("", "", ""),
    ]
    assert await reader.posts([(UNKNOWN, 3)]) == [("", "", "")]
    assert await reader.posts([]) == []
    assert await reader.statuses([closed, UNKNOWN, thread]) == ["closed", "", "open"]


async def test_of_many_replies_the_newest_are_read_oldest_first(board: SearchableBoard) -> None:
    thread = await board.post("Sourdough schedule", "When should I mix the dough?")
    for number in range(1, 6):
        await board.reply(thread, f"Answer number {number}.")
    assert await ThreadReader(board.store).newest_replies(thread, 2) == [
        (4, "Answer number 4."),
        (5, "Answer number 5."),
    ]
    assert await ThreadReader(board.store).newest_replies(UNKNOWN, 2) == []


async def test_the_open_threads_are_listed_newest_first_and_all_of_them_are_met(board: SearchableBoard) -> None:
    threads = [await board.post(f"Thread number {number}", "It is about bread.") for number in range(5)]
    await board.close(threads[2])
    del threads[2]
    for at, thread in enumerate(threads):
        await board.store.command("ZADD", keys.OPEN_THREADS, at, thread)
    reader = ThreadReader(board.store)
    assert await reader.newest_open() == threads[::-1]
    assert await reader.newest_open(3) == threads[:0:-1]
    assert await reader.count_open() == 4
    assert {thread async for some in reader.scan_open() for thread in some} == set(threads)
