"""When a reader of an outbox asks for events, how many it gets at a time, and how many readers work at once."""

import asyncio
from collections.abc import Sequence

import pytest

from node.store import Store, ids, keys, outbox
from node.store.outbox import BATCH_SIZE, Event
from tests.store.outbox import Seen, pending, reading, write
from tests.support.servers import PATIENCE, RedisServer, eventually


@pytest.fixture
def seen() -> Seen:
    return Seen()


async def test_what_comes_while_a_batch_is_handled_shares_the_next(store: Store, seen: Seen) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def handle(events: Sequence[Event]) -> None:
        begun.set()
        await go_on.wait()
        await seen(events)

    async with reading(store, handle):
        await write(store, "a")
        await begun.wait()
        await write(store, "b", "c")
        go_on.set()
        await eventually(lambda: len(seen.entities) == 3)
    assert seen.batches == [["a"], ["b", "c"]]


async def test_what_comes_while_a_reader_rests_shares_its_next_batch(
    store: Store, redis_server: RedisServer, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "REST_FACTOR", 1e9)
    monkeypatch.setattr(outbox, "MAX_REST_SECONDS", 0.0)
    await write(store, "last", stream=keys.events(ids.PARTITIONS - 1))
    async with reading(store, seen):
        await eventually(lambda: seen.entities == {"last"})  # by then, all outboxes have had their first turn
        monkeypatch.setattr(outbox, "MAX_REST_SECONDS", 3.0)
        await write(store, "a")
        await eventually(lambda: "a" in seen.entities and pending(redis_server) == 0)
        await write(store, "b")
        for _ in range(50):  # a reader that did not rest would handle it meanwhile
            await store.command("PING")
        await write(store, "c")
        monkeypatch.setattr(outbox, "MAX_REST_SECONDS", 0.0)  # the current rest ends as planned
        await eventually(lambda: len(seen.entities) == 4)
    assert seen.batches == [["last"], ["a"], ["b", "c"]]


async def test_a_reader_asks_redis_for_events_when_it_is_woken_and_not_before(
    store: Store, redis_server: RedisServer, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "POLL_SECONDS", 10 * PATIENCE)
    monkeypatch.setattr(outbox, "TAKE_OVER_SECONDS", 10 * PATIENCE)

    def calls(command: str) -> int:
        return redis_server.info("commandstats")[f"cmdstat_{command}"]["calls"]

    await write(store, "last", stream=keys.events(ids.PARTITIONS - 1))
    async with reading(store, seen):
        await eventually(lambda: seen.entities == {"last"})  # by then, all outboxes have had their first turn
        await write(store, "a")
        await eventually(lambda: "a" in seen.entities and pending(redis_server) == 0)
        reads = calls("xreadgroup")
        for _ in range(50):  # a reader that did not wait would ask meanwhile
            await store.command("PING")
        assert calls("xreadgroup") == reads
        assert calls("xautoclaim") == ids.PARTITIONS, "one search for what the dead have left"


@pytest.mark.parametrize("at_once", [1, 3])
async def test_no_more_batches_are_handled_at_a_time_than_may_be(store: Store, at_once: int) -> None:
    under_way: set[int] = set()
    all_that_may = asyncio.Event()
    most = 0
    handled = 0

    async def handle(events: Sequence[Event]) -> None:
        nonlocal most, handled
        under_way.add(events[0].partition)
        most = max(most, len(under_way))
        if most == at_once:
            all_that_may.set()
        await all_that_may.wait()
        await store.command("PING")
        under_way.discard(events[0].partition)
        handled += len(events)

    for partition in range(20):
        await write(store, "a", stream=keys.events(partition))
    async with reading(store, handle, at_once=at_once):
        await eventually(lambda: handled == 20)
    assert most == at_once


async def test_an_outbox_with_a_backlog_leaves_the_others_their_turn(store: Store, seen: Seen) -> None:
    await write(store, *map(str, range(3 * BATCH_SIZE)))
    await write(store, "other", stream=keys.events(8))
    async with reading(store, seen):
        await eventually(lambda: len(seen.entities) == 3 * BATCH_SIZE + 1)
    assert ["other"] in seen.batches[:2]
