"""Workers announce that they are alive. What a dead one held is handled by another within seconds."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest

from node.store import Store, keys
from node.store.heartbeats import SILENT_MS, Heartbeat, living
from node.store.outbox import Consumer, Event
from tests.store.outbox import GROUP, STREAM, Seen, move, pending, raw, write
from tests.support.fake_store import Clock, FakeStore
from tests.support.node_under_test import until
from tests.support.servers import RedisServer, eventually


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a worker count as dead after half a second of silence, and take nothing over because of its age."""
    monkeypatch.setattr("node.store.heartbeats.BEAT_SECONDS", 0.05)
    monkeypatch.setattr("node.store.heartbeats.SILENT_MS", 500)
    monkeypatch.setattr("node.store.outbox.ABANDONED_MS", 100)
    monkeypatch.setattr("node.store.outbox.STALE_MS", 10**9)


class Worker:
    """A consumer with its heartbeat, which a test may kill."""

    def __init__(self, store: Store, name: str) -> None:
        self.seen = Seen()
        self.go_on = asyncio.Event()
        self.stop = asyncio.Event()
        consumer = Consumer(store, GROUP, self._handle, name)
        heartbeat = Heartbeat(store, name, [consumer.inherit])
        self._tasks = [asyncio.create_task(consumer.run(self.stop)), asyncio.create_task(heartbeat.run(self.stop))]

    async def _handle(self, events: Sequence[Event]) -> None:
        await self.seen(events)
        await self.go_on.wait()

    async def kill(self) -> None:
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def stopped(self) -> None:
        self.go_on.set()
        self.stop.set()
        await asyncio.gather(*self._tasks)


async def test_what_a_killed_worker_held_is_handled_by_another_at_once(store: Store, redis_server: RedisServer) -> None:
    dead = Worker(store, "dead")
    await write(store, *map(str, range(3)))
    await eventually(lambda: len(dead.seen.entities) > 0)
    heir = Worker(store, "heir")
    heir.go_on.set()
    await write(store, "3")
    await eventually(lambda: heir.seen.entities | dead.seen.entities == {"0", "1", "2", "3"})
    await dead.kill()
    await eventually(lambda: heir.seen.entities == {"0", "1", "2", "3"})
    await eventually(lambda: pending(redis_server) == 0)
    await heir.stopped()


async def test_a_worker_started_after_the_death_inherits_too(store: Store, redis_server: RedisServer) -> None:
    dead = Worker(store, "dead")
    await write(store, "a")
    await eventually(lambda: dead.seen.entities == {"a"})
    await dead.kill()
    heir = Worker(store, "heir")
    heir.go_on.set()
    await eventually(lambda: heir.seen.entities == {"a"} and pending(redis_server) == 0)
    await heir.stopped()


async def test_more_than_one_batch_is_inherited_once_by_two_heirs(store: Store, redis_server: RedisServer) -> None:
    entities = [str(number) for number in range(150)]
    await write(store, *entities)
    redis_server.do("XGROUP", "CREATE", STREAM, GROUP, "0")
    raw(redis_server, "XREADGROUP", "GROUP", GROUP, "dead", "COUNT", 150, "STREAMS", STREAM, ">")
    move(redis_server, minutes=0.1)
    redis_server.do("ZADD", keys.WORKERS, 1, "forgotten")
    time = int(redis_server.do("TIME")[0]) * 1000
    redis_server.do("ZADD", keys.WORKERS, time - 60_000, "dead")
    heirs = [Worker(store, "first"), Worker(store, "second")]
    for heir in heirs:
        heir.go_on.set()
    await eventually(lambda: pending(redis_server) == 0)
    handled = [entity for heir in heirs for batch in heir.seen.batches for entity in batch]
    assert sorted(handled) == sorted(entities)
    await asyncio.gather(*(heir.stopped() for heir in heirs))
    assert redis_server.do("ZSCORE", keys.WORKERS, "forgotten") is None


async def test_a_busy_worker_keeps_what_it_has(store: Store, redis_server: RedisServer) -> None:
    busy = Worker(store, "busy")
    await write(store, "long")
    await eventually(lambda: busy.seen.entities == {"long"})
    told: list[str] = []
    watcher = Heartbeat(store, "watcher", [told.append])
    began = redis_server.do("ZSCORE", keys.WORKERS, "busy")

    async def beaten_for_longer_than_any_silence() -> bool:
        await watcher.beat()
        return redis_server.do("ZSCORE", keys.WORKERS, "busy") > began + 1000

    await until(beaten_for_longer_than_any_silence)
    assert told == []
    busy.go_on.set()
    await eventually(lambda: pending(redis_server) == 0)
    await busy.stopped()


async def test_after_a_pause_of_redis_nobody_is_taken_for_dead(clock: Clock) -> None:
    store = FakeStore()
    first_told: list[str] = []
    first, second = Heartbeat(store, "first", [first_told.append]), Heartbeat(store, "second", [])
    for _ in range(2):
        await first.beat()
        await second.beat()
    clock.advance(60)
    # Nothing was heard for a minute; then both beat again, one of them first.
    await first.beat()
    await second.beat()
    await first.beat()
    assert first_told == []
    clock.advance(60)
    for _ in range(3):
        await first.beat()
    assert first_told == ["second"], "told of once"


async def test_a_worker_that_died_before_the_clock_was_set_back_is_found_dead(clock: Clock) -> None:
    store = FakeStore()
    told: list[str] = []
    dead, alive = Heartbeat(store, "dead", []), Heartbeat(store, "alive", [told.append])
    await dead.beat()
    clock.advance(-86_400)
    assert await living(store) == 0
    await alive.beat()
    clock.advance(SILENT_MS / 1000)
    await alive.beat()
    await alive.beat()
    assert told == ["dead"]
    assert await living(store) == 1


async def test_a_worker_that_leaves_is_neither_living_nor_dead(clock: Clock) -> None:
    store = FakeStore()
    told: list[str] = []
    leaving, staying = Heartbeat(store, "leaving", []), Heartbeat(store, "staying", [told.append])
    await leaving.beat()
    await leaving.leave()
    assert await living(store) == 0
    clock.advance(SILENT_MS / 1000 + 1)
    for _ in range(3):
        await staying.beat()
    assert told == []


async def test_the_beat_goes_on_without_memory_and_does_not_outlive_the_workers(
    store: Store, redis_server: RedisServer
) -> None:
    redis_server.do("CONFIG", "SET", "maxmemory", 1)
    await Heartbeat(store, "one", []).beat()
    assert redis_server.do("ZCARD", keys.WORKERS) == 1
    assert 0 < redis_server.do("PTTL", keys.WORKERS) <= 120_000
