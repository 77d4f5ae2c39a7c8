"""Outboxes and consumer groups on a real server: at least once, whatever dies (DESIGN 4)."""

import asyncio
from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from node.store import Store, StoreUnavailable, keys, outbox
from node.store.errors import OutOfMemory
from node.store.outbox import MAX_DELIVERIES, Consumer, Event, Postponed
from tests.store.outbox import GROUP, STREAM, Seen, held_by_the_dead, move, pending, raw, reading, write
from tests.support.node_under_test import PATIENCE, until
from tests.support.servers import RedisServer, eventually


@pytest.fixture
def seen() -> Seen:
    return Seen()


async def test_events_are_handled_in_order_and_acknowledged(
    store: Store, redis_server: RedisServer, seen: Seen
) -> None:
    await write(store, "a", "b")
    async with reading(store, seen):
        await eventually(lambda: len(seen.entities) == 2)
        await write(store, "c")
        await eventually(lambda: len(seen.entities) == 3)
        await eventually(lambda: pending(redis_server) == 0)
    assert [entity for batch in seen.batches for entity in batch] == ["a", "b", "c"]


async def test_two_groups_see_everything_and_two_consumers_of_one_share_it(
    store: Store, redis_server: RedisServer
) -> None:
    first, second, other = Seen(), Seen(), Seen()
    async with reading(store, first), reading(store, second), reading(store, other, "others"):
        await write(store, *map(str, range(100)))
        await eventually(lambda: len(first.entities | second.entities) == 100 and len(other.entities) == 100)
        await eventually(lambda: pending(redis_server) == pending(redis_server, "others") == 0)
    assert not first.entities & second.entities


async def test_what_a_dead_worker_held_is_taken_over(store: Store, redis_server: RedisServer, seen: Seen) -> None:
    await write(store, *map(str, range(100)))
    held_by_the_dead(redis_server, 100)
    async with reading(store, seen):
        await eventually(lambda: len(seen.entities) == 100)
        await eventually(lambda: pending(redis_server) == 0)


async def test_what_another_worker_works_on_is_left_to_it(store: Store, redis_server: RedisServer, seen: Seen) -> None:
    await write(store, "theirs")
    held_by_the_dead(redis_server, 1, minutes=0)
    async with reading(store, seen):
        await write(store, "ours")
        await eventually(lambda: "ours" in seen.entities)
    assert seen.entities == {"ours"}


async def test_one_event_that_cannot_be_handled_holds_up_no_other(
    store: Store, redis_server: RedisServer, seen: Seen
) -> None:
    seen.bad = {"bad"}
    await write(store, "a", "bad", "b")
    async with reading(store, seen):
        await eventually(lambda: ["bad"] in seen.batches)
        await write(store, "c")
        await eventually(lambda: seen.entities == {"a", "bad", "b", "c"} and pending(redis_server) == 1)
    assert seen.batches.count(["bad"]) == 1, "it comes again after a while"


async def test_an_event_that_was_not_handled_comes_again(store: Store, redis_server: RedisServer, seen: Seen) -> None:
    seen.bad = {"bad"}
    await write(store, "bad")
    async with reading(store, seen):
        await eventually(lambda: ["bad"] in seen.batches)
    seen.bad = set()
    move(redis_server, minutes=1)
    async with reading(store, seen):
        await eventually(lambda: pending(redis_server) == 0)
    assert seen.batches == [["bad"], ["bad"]]


async def test_an_event_that_was_not_handled_is_not_renewed(
    store: Store, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A renewed event would come again only with the next event of its outbox, if there ever is one."""
    for name, value in {"STALE_MS": 200, "RENEW_SECONDS": 0.02, "TAKE_OVER_SECONDS": 0.0, "POLL_SECONDS": 0.02}.items():
        monkeypatch.setattr(outbox, name, value)
    seen.bad = {"bad"}
    await write(store, "bad")
    async with reading(store, seen):
        await eventually(lambda: seen.batches[:2] == [["bad"], ["bad"]])


async def test_an_event_that_can_never_be_handled_is_given_up_in_the_end(
    store: Store, redis_server: RedisServer, seen: Seen
) -> None:
    seen.bad = {"bad"}
    await write(store, "bad")
    held_by_the_dead(redis_server, 1)
    move(redis_server, minutes=1, deliveries=MAX_DELIVERIES)
    async with reading(store, seen):
        await eventually(lambda: pending(redis_server) == 0)


async def test_an_entry_that_is_no_event_stops_nothing(store: Store, redis_server: RedisServer, seen: Seen) -> None:
    redis_server.do("XADD", STREAM, "*", "type", b"\xff")
    async with reading(store, seen):
        await write(store, "a")
        await eventually(lambda: seen.entities == {"a"} and pending(redis_server) == 1)


async def test_what_a_reader_held_when_redis_failed_it_is_handled_as_soon_as_it_is_back(
    store: Store, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "POLL_SECONDS", 10 * PATIENCE)
    failing, tries, seen = True, 0, Seen()

    async def handle(events: Sequence[Event]) -> None:
        nonlocal tries
        tries += 1
        if failing:
            raise StoreUnavailable("gone")
        await seen(events)

    async with reading(store, handle):
        await write(store, "a", "b")
        await eventually(lambda: pending(redis_server) > 0)
        for _ in range(500):  # a reader that did not wait would try again and again meanwhile
            await store.command("PING")
        assert tries <= 2, "once for each wake-up"
        failing = False
        redis_server.do("SPUBLISH", STREAM, "look")
        await eventually(lambda: seen.entities == {"a", "b"} and pending(redis_server) == 0)


async def test_an_event_that_fails_again_after_redis_was_away_holds_up_no_other(store: Store, seen: Seen) -> None:
    """If it were tried again and again at once, it would be given up within a second."""
    seen.bad, seen.error = {"bad"}, StoreUnavailable
    await write(store, "bad")
    async with reading(store, seen):
        await eventually(lambda: seen.batches)
        seen.error = ValueError
        await write(store, "a")
        await eventually(lambda: "a" in seen.entities)
    assert seen.batches == [["bad"], ["bad"], ["a"]]


async def test_an_outbox_that_cannot_be_read_is_tried_again_and_holds_up_no_other(
    store: Store, redis_server: RedisServer, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "STALE_MS", 10**9)
    is_first = True

    async def handle(events: Sequence[Event]) -> None:
        nonlocal is_first
        await seen(events)
        if is_first:
            is_first = False
            redis_server.do("RENAME", STREAM, "away")
            redis_server.do("SET", STREAM, "no outbox")

    await write(store, "a")
    with capture_logs() as logged:
        async with reading(store, handle, may_fail=True):
            await eventually(lambda: any(line["event"] == "background task failed" for line in logged))
            await write(store, "other", stream=keys.events(8))
            await eventually(lambda: seen.entities == {"a", "other"})
            redis_server.do("RENAME", "away", STREAM)
            await eventually(lambda: pending(redis_server) == 0)
    assert seen.batches.count(["a"]) == 2
    notes = [note for line in logged if "exc_info" in line for note in line["exc_info"].__notes__]
    assert set(notes) == {"in the outbox of partition 7"}


async def test_reading_goes_on_when_redis_has_restarted_empty(
    store: Store, redis_server: RedisServer, seen: Seen
) -> None:
    async with reading(store, seen):
        await write(store, "before")
        await eventually(lambda: "before" in seen.entities)
        redis_server.kill()
        redis_server.start()
        await until(lambda: answers(store))
        await write(store, "after")
        await eventually(lambda: "after" in seen.entities)


async def test_reading_goes_on_when_the_groups_are_gone(store: Store, redis_server: RedisServer, seen: Seen) -> None:
    async with reading(store, seen):
        await write(store, "before")
        await eventually(lambda: "before" in seen.entities)
        redis_server.do("FLUSHALL")
        await write(store, "after")
        await eventually(lambda: "after" in seen.entities)


async def answers(store: Store) -> bool:
    try:
        await store.command("PING")
    except StoreUnavailable:
        return False
    return True


async def test_a_full_redis_does_not_keep_what_frees_memory_from_being_handled(
    store: Store, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.store.outbox.TAKE_OVER_SECONDS", 0.0)
    done: list[str] = []

    async def handle(events: Sequence[Event]) -> None:
        for event in events:
            await store.command(*(("DEL", "large") if event.entity == "frees" else ("SET", "small", "x")))
            done.append(event.entity)

    redis_server.do("SET", "large", "x" * 100_000)
    redis_server.do("XGROUP", "CREATE", STREAM, GROUP, "0", "MKSTREAM")
    await write(store, "needs", "frees")
    redis_server.do("CONFIG", "SET", "maxmemory", "1")
    async with reading(store, handle):
        await eventually(lambda: redis_server.do("EXISTS", "large") == 0 and pending(redis_server) == 1)
        assert done == ["frees"]
        redis_server.do("CONFIG", "SET", "maxmemory", 0)
        move(redis_server, minutes=1)
        redis_server.do("SPUBLISH", STREAM, "look")
        await eventually(lambda: pending(redis_server) == 0)
    assert done == ["frees", "needs"]


async def test_reading_goes_on_in_a_full_redis_that_was_away(
    store: Store, redis_server: RedisServer, seen: Seen
) -> None:
    seen.error = StoreUnavailable
    seen.bad = {"a"}
    async with reading(store, seen):
        await write(store, "a")
        await eventually(lambda: "a" in seen.entities)
        redis_server.do("CONFIG", "SET", "maxmemory", "1")
        seen.bad = set()
        redis_server.do("SPUBLISH", STREAM, "look")
        await eventually(lambda: pending(redis_server) == 0)


async def test_outboxes_that_nobody_reads_yet_are_joined_when_a_full_redis_has_room(
    store: Store, redis_server: RedisServer, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.store.outbox.POLL_SECONDS", 0.01)
    await write(store, "a")
    redis_server.do("CONFIG", "SET", "maxmemory", "1")
    async with reading(store, seen):
        await until(lambda: refused(redis_server))
        redis_server.do("CONFIG", "SET", "maxmemory", 0)
        await eventually(lambda: seen.entities == {"a"} and pending(redis_server) == 0)


async def refused(server: RedisServer) -> bool:
    """Return whether a client was refused for lack of memory."""
    return "errorstat_OOM" in server.info("errorstats")


async def test_stopping_waits_for_what_was_begun_and_for_nothing_else(store: Store, redis_server: RedisServer) -> None:
    begun, go_on, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handle(events: Sequence[Event]) -> None:
        begun.set()
        await go_on.wait()

    running = asyncio.create_task(Consumer(store, GROUP, handle).run(stop))
    await write(store, "a")
    await begun.wait()
    stop.set()
    await write(store, "b")
    go_on.set()
    await asyncio.wait_for(running, PATIENCE)
    assert pending(redis_server) == 0
    ((*_, lag),) = raw(redis_server, "XINFO", "GROUPS", STREAM)
    assert lag == 1


async def test_a_handler_that_hangs_holds_no_stopping_worker_and_its_event_comes_again(
    store: Store, redis_server: RedisServer, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "STOP_SECONDS", 0.05)
    begun, cut_off, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def hang(events: Sequence[Event]) -> None:
        begun.set()
        try:
            await asyncio.Future()
        finally:
            cut_off.set()

    running = asyncio.create_task(Consumer(store, GROUP, hang).run(stop))
    await write(store, "a")
    await begun.wait()
    stop.set()
    await asyncio.wait_for(running, PATIENCE)
    assert cut_off.is_set()
    assert pending(redis_server) == 1
    move(redis_server, minutes=1)
    async with reading(store, seen):
        await eventually(lambda: seen.entities == {"a"} and pending(redis_server) == 0)


@pytest.mark.parametrize("error", [Postponed, OutOfMemory])
async def test_what_a_handler_postpones_or_has_no_memory_for_comes_again_and_is_no_failure(
    store: Store, redis_server: RedisServer, seen: Seen, error: type[Exception]
) -> None:
    seen.bad, seen.error = {"later"}, error
    await write(store, "later")
    held_by_the_dead(redis_server, 1)
    move(redis_server, minutes=1, deliveries=MAX_DELIVERIES)
    with capture_logs() as logged:
        async with reading(store, seen):
            await write(store, "a")
            await eventually(lambda: seen.entities == {"later", "a"} and pending(redis_server) == 1)
    assert [line for line in logged if line["log_level"] == "error"] == []
    seen.bad = set()
    move(redis_server, minutes=1)
    async with reading(store, seen):
        await eventually(lambda: pending(redis_server) == 0)


async def test_what_is_being_handled_is_renewed(
    store: Store, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.store.outbox.RENEW_SECONDS", 0.02)
    go_on = asyncio.Event()

    async def handle(events: Sequence[Event]) -> None:
        await go_on.wait()

    async with reading(store, handle):
        await write(store, "a")
        await eventually(lambda: pending(redis_server) == 1)
        move(redis_server, minutes=1)
        await eventually(lambda: idle(redis_server)[0] < 60_000)
        assert idle(redis_server)[1] == 1, "an event that takes long would be given up at its first failure"
        go_on.set()


def idle(server: RedisServer) -> tuple[int, int]:
    """Return the milliseconds since the pending event was delivered or renewed, and how often it was delivered."""
    ((_, _, milliseconds, deliveries),) = raw(server, "XPENDING", STREAM, GROUP, "-", "+", 1)
    return milliseconds, deliveries
