"""Many large events at once: how much of them followers keep in memory, and who waits for whom."""

import asyncio
from collections.abc import Collection

import pytest

from node.common.refusal import Refused
from node.events import broadcast
from node.events.broadcast import KEPT_BYTES, READ_AT_ONCE, Broadcast
from node.events.frames import ENCODED_BYTES, encoded
from node.events.source import START, EventBatch, Position, SourceEvent
from node.web.streams import PIECE_BYTES
from tests.events.test_broadcast import LONG, Reader, joined
from tests.support.node_under_test import NodeUnderTest
from tests.support.other_turns import OtherTurns
from tests.support.servers import eventually


class Large:
    """A source whose events have a given size and are all there from the beginning."""

    name = channel = "large"
    types = frozenset({"large"})

    def __init__(self, count: int, size: int) -> None:
        self.count = count
        self._content = "x" * size
        self.asked: list[int] = []
        """Number of events requested by each read."""

    async def read(self, after: Position, limit: int, types: Collection[str]) -> EventBatch:
        self.asked.append(limit)
        numbers = range(after[0] + 1, min(self.count, after[0] + limit) + 1)
        events = [SourceEvent((number, 0), "large", "", self._content) for number in numbers]
        position = events[-1].position if events else after
        return EventBatch(events, after, position, position[0] < self.count)

    async def newest(self) -> Position:
        return self.count, 0

    async def oldest(self) -> Position:
        return START


async def test_large_events_that_come_together_go_a_piece_at_a_time_to_all_who_take_them(
    monkeypatch: pytest.MonkeyPatch, node: NodeUnderTest
) -> None:
    monkeypatch.setattr(broadcast, "CATCH_UP_SECONDS", LONG)
    told = Broadcast(Large(300, 10_000), node.store.wakeups, set())
    has_room, has_none = Reader(), Reader()
    has_none.has_room = False

    async def follow(reader: Reader) -> None:
        follower = joined(told, Large.types)
        follower.on_too_slow = follower.end
        while not follower.has_ended:
            reader.hear(await follower.next(LONG, reader.hear))

    running = [asyncio.create_task(follow(reader)) for reader in (has_room, has_none)]
    await eventually(lambda: len(has_room.heard) == len(has_none.heard) == 300, LONG)
    told.end()
    await asyncio.gather(*running)
    assert max(map(len, has_room.pieces + has_none.pieces)) <= PIECE_BYTES


async def test_who_takes_large_events_gets_all_of_them_before_their_end(
    monkeypatch: pytest.MonkeyPatch, node: NodeUnderTest
) -> None:
    monkeypatch.setattr(broadcast, "MAX_BEHIND_BYTES", 10_000_000)
    monkeypatch.setattr(broadcast, "CATCH_UP_SECONDS", LONG)
    monkeypatch.setattr(broadcast, "POLL_SECONDS", 0.0)  # their end sends no wake-up

    gone = asyncio.Event()

    class Ending(Large):
        async def read(self, after: Position, limit: int, types: Collection[str]) -> EventBatch:
            if after == (self.count, 0):
                gone.set()
                raise Refused("session.gone")
            return await super().read(after, limit, types)

    source, reader = Ending(100, 40_000), Reader()
    reader.has_room = False
    follower = joined(Broadcast(source, node.store.wakeups, set()), source.types)
    follower.on_too_slow = follower.leave
    async with asyncio.timeout(LONG):
        while len(reader.heard) < 100 and not follower.has_ended:
            reader.hear(await follower.next(LONG, reader.hear))
            await gone.wait()
    assert len(reader.heard) == 100


async def test_who_does_not_take_a_large_batch_is_dropped_and_the_batch_forgotten(
    monkeypatch: pytest.MonkeyPatch, node: NodeUnderTest
) -> None:
    monkeypatch.setattr(broadcast, "CATCH_UP_SECONDS", 0.0)
    source = Large(100, 40_000)
    told = Broadcast(source, node.store.wakeups, set())
    stalled, reader, dropped = joined(told, source.types), Reader(), asyncio.Event()
    reader.has_room = False
    stalled.on_too_slow = dropped.set
    async with asyncio.timeout(LONG):
        await stalled.next(LONG, reader.hear)
        await dropped.wait()
    assert len(told) == 0
    assert sum(map(len, reader.pieces)) < 100_000
    assert source.asked == [READ_AT_ONCE]


async def test_after_large_events_fewer_are_read_at_once_and_few_are_kept(
    monkeypatch: pytest.MonkeyPatch, node: NodeUnderTest
) -> None:
    monkeypatch.setattr(broadcast, "CHECK_SECONDS", 0)
    source = Large(300, 40_000)
    told = Broadcast(source, node.store.wakeups, set())
    follower = joined(told, source.types)
    follower.on_too_slow = follower.end
    async with asyncio.timeout(LONG):
        while follower.position < (300, 0):
            await follower.next(LONG)
    assert source.asked[:2] == [READ_AT_ONCE, 26]
    oldest_kept = told.position_of(0)[0]
    assert 300 - oldest_kept <= KEPT_BYTES // 40_000 + 26
    follower.leave()


async def test_others_get_on_while_large_events_are_encoded() -> None:
    events = [SourceEvent((number, 0), "large", "", "x" * 40_000) for number in range(100)]
    async with OtherTurns() as others:
        assert len(await encoded("large", events)) == 100
    assert others.count == 4_000_000 // ENCODED_BYTES
