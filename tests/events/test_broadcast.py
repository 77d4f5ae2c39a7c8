"""What the followers of one broadcast get, whatever each of them is doing when events arrive."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager

import pytest

from node.common.pauses import PAUSE
from node.events import broadcast
from node.events.broadcast import READ_AT_ONCE, Broadcast, Broadcasts, Follower
from node.events.frames import Frames
from node.events.model import EventPage, EventQuery
from node.events.service import Topic
from node.events.source import START, EventBatch, Position, SourceEvent, position_of
from node.store import Store, StoreUnavailable
from tests.support.node_under_test import NodeUnderTest, until
from tests.support.servers import PATIENCE, eventually

LONG = PATIENCE
BOTH = frozenset({"even", "odd"})


class Numbers:
    """A source whose events are the numbers up to one that a test raises."""

    name = channel = "numbers"
    types = BOTH

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last = 0
        self.during: list[Callable[[], Awaitable[object]]] = []
        """Functions to await at the end of the next reads, one for each read."""

    async def grow(self, count: int) -> None:
        """Add events, and send a wake-up."""
        self._last += count
        await self._store.command("SPUBLISH", self.channel, "", key=self.channel)

    async def read(self, after: Position, limit: int, types: Collection[str]) -> EventBatch:
        numbers = range(after[0] + 1, min(self._last, after[0] + limit) + 1)
        events = [SourceEvent((number, 0), "odd" if number % 2 else "even", "", number) for number in numbers]
        position = events[-1].position if events else after
        has_more = position[0] < self._last
        if self.during:
            await self.during.pop(0)()
        return EventBatch([event for event in events if event.type in types], after, position, has_more)

    async def newest(self) -> Position:
        return self._last, 0

    async def oldest(self) -> Position:
        return START


class Reader:
    """Accepts what a follower is sent, like a connection with or without room."""

    def __init__(self) -> None:
        self.heard: list[object] = []
        self.pieces: list[bytes] = []
        self.has_room = True

    def hear(self, frames: Frames) -> bool:
        self.heard += data_of(frames)
        self.pieces.append(frames.written("ndjson"))
        return self.has_room


def data_of(frames: Frames) -> list[object]:
    return [frame.view.data for frame in frames]


@pytest.fixture
def numbers(node: NodeUnderTest) -> Numbers:
    return Numbers(node.store)


@pytest.fixture
def told(numbers: Numbers, node: NodeUnderTest) -> Iterator[Broadcast]:
    """The broadcast of the numbers."""
    made = Broadcast(numbers, node.store.wakeups, set())
    yield made
    made.end()


def joined(told: Broadcast, types: frozenset[str] = BOTH) -> Follower:
    follower = told.join(START, types)
    assert follower
    return follower


async def test_all_events_of_a_batch_reach_who_waits_however_few_are_kept(
    monkeypatch: pytest.MonkeyPatch, numbers: Numbers, told: Broadcast
) -> None:
    monkeypatch.setattr(broadcast, "KEPT_BYTES", 1)
    await numbers.grow(50)
    follower = joined(told)
    assert data_of(await follower.next(LONG)) == list(range(1, 51))


async def test_followers_who_wait_get_the_same_piece_and_those_of_other_types_another(
    numbers: Numbers, told: Broadcast, node: NodeUnderTest
) -> None:
    readers = [Reader() for _ in range(3)]
    wanted = [BOTH, frozenset(BOTH), frozenset({"odd"})]
    waiting = [
        asyncio.create_task(joined(told, types).next(LONG, reader.hear))
        for types, reader in zip(wanted, readers, strict=True)
    ]
    await node.listened_to(numbers.channel)
    await numbers.grow(5)

    await eventually(lambda: all(reader.heard for reader in readers))
    assert readers[0].heard == readers[1].heard == [1, 2, 3, 4, 5]
    assert readers[2].heard == [1, 3, 5]
    assert readers[0].pieces[0] is readers[1].pieces[0]
    told.end()
    assert [data_of(frames) for frames in await asyncio.gather(*waiting)] == [[], [], []]


@pytest.mark.parametrize("bound", ["NOTIFIED_AT_ONCE", "NOTIFIED_BYTES"])  # many followers, and large events
async def test_who_follows_seldom_events_hears_them_without_a_rest_and_frequent_ones_with_one_in_between(
    monkeypatch: pytest.MonkeyPatch, numbers: Numbers, told: Broadcast, node: NodeUnderTest, bound: str
) -> None:
    rests: list[float] = []

    async def sleep(seconds: float) -> None:
        rests.append(seconds)

    monkeypatch.setattr(broadcast, "sleep", sleep)
    monkeypatch.setattr(broadcast, bound, 1)
    # So that everything after the first event counts as frequent.
    monkeypatch.setattr(broadcast, "SELDOM_SECONDS", LONG)
    readers = [Reader() for _ in range(3)]
    waiting = [asyncio.create_task(joined(told).next(LONG, reader.hear)) for reader in readers]
    await node.listened_to(numbers.channel)
    for last in (1, 2):
        await numbers.grow(1)

        async def all_have_heard(last: int = last) -> bool:
            return all(last in reader.heard for reader in readers) and len(rests) >= (4 if last == 1 else 7)

        await until(all_have_heard)
    told.end()
    await asyncio.gather(*waiting)
    assert rests[:3] == [0.0] * 3, "between the followers of the first event"
    assert len(rests) == 7, "one rest after the first, and one after each follower of the second"
    assert all(rest > 0 for rest in rests[3:])


async def test_the_rest_is_short_after_seldom_events_and_while_there_is_more_to_read(
    monkeypatch: pytest.MonkeyPatch, numbers: Numbers, told: Broadcast, node: NodeUnderTest
) -> None:
    rests: list[float] = []

    async def sleep(seconds: float) -> None:
        rests.append(seconds)

    monkeypatch.setattr(broadcast, "sleep", sleep)
    monkeypatch.setattr(broadcast, "NOTIFIED_AT_ONCE", 1)
    # So that everything after the first event counts as frequent.
    monkeypatch.setattr(broadcast, "SELDOM_SECONDS", LONG)
    monkeypatch.setattr(broadcast, "SHORT_REST", 0.0)
    reader = Reader()
    waiting = asyncio.create_task(joined(told).next(LONG, reader.hear))
    await node.listened_to(numbers.channel)
    for more, rested in ((1, 2), (READ_AT_ONCE + 1, 4)):
        await numbers.grow(more)

        async def has_rested(rested: int = rested) -> bool:
            return len(rests) >= rested

        await until(has_rested)
    told.end()
    await waiting
    *short, long = rests
    assert short == [0.0] * 3, "beside the first event, after it, and after as many as are read at once"
    assert long > 0, "after the last"


async def test_who_has_no_room_is_left_alone_until_it_has_and_gets_all_once_and_in_order(
    numbers: Numbers, told: Broadcast, node: NodeUnderTest
) -> None:
    follower, reader = joined(told), Reader()
    reader.has_room = False
    waiting = asyncio.create_task(follower.next(LONG, reader.hear))
    await node.listened_to(numbers.channel)
    await numbers.grow(1)
    assert data_of(await waiting) == []
    assert reader.heard == [1]
    other = joined(told)
    await numbers.grow(2)
    while other.position < (3, 0):
        await other.next(LONG)
    assert reader.heard == [1]
    reader.heard += data_of(await follower.next(LONG, reader.hear))
    assert reader.heard == [1, 2, 3]


async def test_who_has_been_busy_for_too_long_is_dropped_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch, numbers: Numbers, told: Broadcast, node: NodeUnderTest
) -> None:
    monkeypatch.setattr(broadcast, "MAX_BEHIND_BYTES", 10_000)
    busy, other, dropped = joined(told), joined(told), asyncio.Event()
    busy.on_too_slow = dropped.set
    waiting = asyncio.create_task(other.next(LONG))
    await node.listened_to(numbers.channel)
    await numbers.grow(100)
    assert data_of(await waiting) == list(range(1, 101))
    async with asyncio.timeout(LONG):
        while not dropped.is_set():
            await numbers.grow(1)
            await other.next(LONG)
    assert len(told) == 1


async def test_what_was_read_before_a_pause_does_not_count_against_who_follows_after_it(
    monkeypatch: pytest.MonkeyPatch, numbers: Numbers, told: Broadcast, node: NodeUnderTest
) -> None:
    monkeypatch.setattr(broadcast, "MAX_BEHIND_BYTES", 1000)
    # An unused channel is unsubscribed after a few of these intervals.
    monkeypatch.setattr("node.store.wakeups.UPKEEP_SECONDS", 0.02)
    await numbers.grow(100)
    first = joined(told)
    assert len(await first.next(LONG)) == 100
    first.leave()

    async def nobody_listens() -> bool:
        return await node.store.command("PUBSUB", "SHARDNUMSUB", numbers.channel) == [numbers.channel.encode(), 0]

    await until(nobody_listens)
    after = await told.newest()
    busy, other, dropped = told.join(after, BOTH), told.join(after, BOTH), asyncio.Event()
    assert busy
    assert other
    assert data_of(await busy.next(0)) == []
    busy.on_too_slow = dropped.set
    waiting = asyncio.create_task(other.next(LONG))
    await node.listened_to(numbers.channel)
    await numbers.grow(1)
    assert data_of(await waiting) == [101]
    assert not dropped.is_set()
    assert data_of(await busy.next(LONG)) == [101]


async def test_followers_of_all_topics_count_together_until_they_leave(numbers: Numbers, node: NodeUnderTest) -> None:
    broadcasts = Broadcasts(node.store.wakeups, most=2)
    topics = [broadcasts.of(topic, "", numbers) for topic in ("thread:1", "thread:2")]
    assert broadcasts.may_wait
    followers = [joined(each) for each in topics]
    assert broadcasts.counts() == {"thread": 2}
    assert not broadcasts.may_wait
    followers[0].leave()
    followers[0].leave()
    assert broadcasts.may_wait
    joined(topics[0])
    assert not broadcasts.may_wait
    followers[1].leave()
    assert broadcasts.may_wait
    broadcasts.end()
    assert not broadcasts.may_wait


async def heard(follower: Follower, last: int) -> list[object]:
    """Return all events that the follower gets, batch by batch, up to the event with that number."""
    found: list[object] = []
    async with asyncio.timeout(LONG):
        while last not in found:
            found += data_of(await follower.next(LONG))
    return found


async def test_whoever_comes_in_whatever_order_gets_what_follows_its_position_once(
    numbers: Numbers, told: Broadcast
) -> None:
    await numbers.grow(5)
    first, second, late = joined(told), joined(told), joined(told)
    for follower in (first, second):
        assert await heard(follower, 5) == [1, 2, 3, 4, 5]
        assert follower.position == (5, 0)
    for after in (3, 0, 3, 0):
        follower = told.join((after, 0), BOTH)
        assert follower
        assert await heard(follower, 5) == list(range(after + 1, 6))
    reader = Reader()
    reader.has_room = False
    waiting = asyncio.create_task(first.next(LONG, reader.hear))
    await asyncio.sleep(0)  # lets the follower begin to wait
    await numbers.grow(1)
    assert data_of(await waiting) == []
    assert reader.heard == [6]
    assert await heard(late, 6) == [1, 2, 3, 4, 5, 6]
    assert await heard(second, 6) == [6]


async def test_who_begins_before_what_is_kept_has_to_read_that_first(
    monkeypatch: pytest.MonkeyPatch, numbers: Numbers, told: Broadcast
) -> None:
    monkeypatch.setattr(broadcast, "KEPT_BYTES", 1)
    follower = joined(told)
    for last in (5, 6):
        await numbers.grow(last - follower.position[0])
        await heard(follower, last)
    assert told.join(START, BOTH) is None
    later = told.join((5, 0), BOTH)
    assert later
    assert await heard(later, 6) == [6]


async def test_what_comes_while_the_source_is_read_is_read_without_another_wake_up(
    monkeypatch: pytest.MonkeyPatch, numbers: Numbers, told: Broadcast, node: NodeUnderTest
) -> None:
    monkeypatch.setattr(broadcast, "POLL_SECONDS", 100 * LONG)

    async def grow_and_wake() -> None:
        with await node.store.wakeups.listen(numbers.channel) as listener:
            listener.forget()
            await numbers.grow(1)
            await listener.next(LONG)

    numbers.during = [grow_and_wake]
    assert await heard(joined(told), 1) == [1]


async def test_more_than_is_read_at_once_is_read_without_a_wake_up(
    monkeypatch: pytest.MonkeyPatch, numbers: Numbers, told: Broadcast
) -> None:
    monkeypatch.setattr(broadcast, "POLL_SECONDS", 100 * LONG)
    await numbers.grow(2 * READ_AT_ONCE + 1)
    assert len(await heard(joined(told), 2 * READ_AT_ONCE + 1)) == 2 * READ_AT_ONCE + 1


async def test_followers_stay_while_redis_is_out_of_reach(numbers: Numbers, told: Broadcast) -> None:
    async def fail() -> None:
        raise StoreUnavailable("gone for a moment")

    await numbers.grow(1)
    numbers.during = [fail]
    assert await heard(joined(told), 1) == [1]


async def test_who_has_been_let_go_does_not_wait(told: Broadcast) -> None:
    follower = joined(told)
    told.end()
    async with asyncio.timeout(LONG):
        assert data_of(await follower.next(100 * LONG)) == []


async def test_a_page_ends_where_its_events_do_although_others_are_forgotten_before_its_client_has_a_turn_again(
    monkeypatch: pytest.MonkeyPatch, numbers: Numbers, told: Broadcast, node: NodeUnderTest
) -> None:
    monkeypatch.setattr(broadcast, "KEPT_BYTES", 1)
    waits, has_turn = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def pause() -> AsyncGenerator[None]:
        yield
        waits.set()
        await has_turn.wait()

    async def ask() -> EventPage:
        PAUSE.set(pause)
        topic = Topic(numbers, Broadcasts(node.store.wakeups, 1), told, BOTH)
        return await node.services().events.page(topic, EventQuery(numbers.name, wait=LONG))

    async def is_read(last: int) -> bool:
        return await told.newest() == (last, 0)

    asking = asyncio.create_task(ask())
    await node.listened_to(numbers.channel)
    await numbers.grow(1)
    await waits.wait()
    for last in (2, 3, 4):
        await numbers.grow(1)
        await until(lambda last=last: is_read(last))
    has_turn.set()
    page = await asking
    assert ([each.data for each in page.events], position_of(numbers.name, page.cursor)) == ([1], (1, 0))
