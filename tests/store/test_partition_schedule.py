"""When to look into which partition: into all of them at intervals, and in time into those where something is due."""

import asyncio
from collections.abc import Sequence

import pytest

from node.store import StoreUnavailable, ids, partition_schedule
from node.store.partition_schedule import PartitionSchedule, run_due
from tests.support.servers import PATIENCE, eventually

EVERYWHERE = list(range(ids.PARTITIONS))
FOREVER = 1000.0


async def turns() -> None:
    """Let the event loop do everything that it can do without waiting."""
    for _ in range(100):
        await asyncio.sleep(0)


async def test_the_first_look_goes_everywhere_and_the_next_one_nowhere() -> None:
    schedule = PartitionSchedule(FOREVER)
    assert schedule.due() == EVERYWHERE
    assert schedule.due() == []


async def test_what_is_expected_ends_the_wait_when_it_is_due() -> None:
    schedule, stop = PartitionSchedule(FOREVER), asyncio.Event()
    schedule.due()
    schedule.due_in(7, 0.02)
    schedule.due_in(7, 500)
    async with asyncio.timeout(PATIENCE):
        while not (due := schedule.due()):
            await schedule.wait(stop)
    assert due == [7]


async def test_something_sooner_ends_a_wait_that_has_begun() -> None:
    schedule, stop = PartitionSchedule(FOREVER), asyncio.Event()
    schedule.due()
    waiting = asyncio.create_task(schedule.wait(stop))
    await asyncio.sleep(0)
    schedule.due_in(3)
    async with asyncio.timeout(PATIENCE):
        await waiting
    assert schedule.due() == [3]


async def test_what_comes_up_during_a_look_is_looked_at_next() -> None:
    schedule, stop = PartitionSchedule(FOREVER), asyncio.Event()
    assert schedule.due() == EVERYWHERE
    schedule.due_in(5)
    async with asyncio.timeout(PATIENCE):
        await schedule.wait(stop)
    assert schedule.due() == [5]


async def test_a_wait_does_not_end_before_something_is_due() -> None:
    schedule, stop = PartitionSchedule(FOREVER), asyncio.Event()
    schedule.due()
    schedule.due_in(7)
    assert schedule.due() == [7]
    waiting = asyncio.create_task(schedule.wait(stop))
    await turns()
    assert not waiting.done(), "the worker would read all the time"
    stop.set()
    await waiting


async def test_a_stop_ends_the_wait() -> None:
    schedule, stop = PartitionSchedule(FOREVER), asyncio.Event()
    schedule.due()
    stop.set()
    async with asyncio.timeout(PATIENCE):
        await schedule.wait(stop)


async def test_everything_is_looked_at_again_after_the_longest_time() -> None:
    schedule, stop = PartitionSchedule(0.01), asyncio.Event()
    schedule.due()
    async with asyncio.timeout(PATIENCE):
        while schedule.due() != EVERYWHERE:
            await schedule.wait(stop)


async def test_no_more_is_worked_on_at_a_time_than_may_be_and_all_is_taken_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_schedule, "PAUSE_SECONDS", 0.001)
    most, stop, working, peak, ended = 3, asyncio.Event(), list[asyncio.Event](), 0, 0

    async def take(partitions: Sequence[int]) -> list[int]:
        return [*partitions[:1]]

    async def work(_: int) -> None:
        nonlocal peak, ended
        working.append(free := asyncio.Event())
        peak = max(peak, len(working))
        await free.wait()
        ended += 1

    running = asyncio.create_task(run_due(PartitionSchedule(0.001), take, work, most=most, stop=stop))
    for number in range(5 * most):
        await eventually(lambda: len(working) == most)
        working.pop(0).set()
        await eventually(lambda number=number: ended > number)
    stop.set()
    await eventually(lambda: len(working) <= most)
    for free in working:
        free.set()
    await asyncio.wait_for(running, PATIENCE)
    assert peak == most


async def test_what_could_not_be_read_is_read_again_without_waiting_for_its_regular_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_schedule, "PAUSE_SECONDS", 0.001)
    read, stop = list[Sequence[int]](), asyncio.Event()

    async def take(partitions: Sequence[int]) -> list[int]:
        read.append(partitions)
        if len(read) == 1:
            raise StoreUnavailable("away")
        return [7]

    async def work(_: int) -> None:
        stop.set()

    await asyncio.wait_for(run_due(PartitionSchedule(FOREVER), take, work, most=1, stop=stop), PATIENCE)
    assert read == [EVERYWHERE, EVERYWHERE]


async def test_redis_is_not_asked_all_the_time_while_it_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_schedule, "PAUSE_SECONDS", FOREVER)
    reads, stop = 0, asyncio.Event()

    async def take(_: Sequence[int]) -> list[int]:
        nonlocal reads
        reads += 1
        await asyncio.sleep(0)
        raise StoreUnavailable("away")

    async def work(_: int) -> None: ...

    running = asyncio.create_task(run_due(PartitionSchedule(FOREVER), take, work, most=1, stop=stop))
    await turns()
    stop.set()
    await asyncio.wait_for(running, PATIENCE)
    assert reads == 1


@pytest.mark.parametrize(("seconds", "ends"), [(FOREVER, True), (0, False)])
async def test_work_under_way_has_some_seconds_to_end_after_a_stop(
    monkeypatch: pytest.MonkeyPatch, seconds: float, *, ends: bool
) -> None:
    monkeypatch.setattr(partition_schedule, "STOP_SECONDS", seconds)
    stop, begun, goes_on, has_ended = asyncio.Event(), asyncio.Event(), asyncio.Event(), False

    async def take(partitions: Sequence[int]) -> list[int]:
        return [*partitions[:1]]

    async def work(_: int) -> None:
        nonlocal has_ended
        begun.set()
        await goes_on.wait()
        has_ended = True

    running = asyncio.create_task(run_due(PartitionSchedule(FOREVER), take, work, most=9, stop=stop))
    await begun.wait()
    stop.set()
    await turns()
    if ends:
        goes_on.set()
    await asyncio.wait_for(running, PATIENCE)
    assert has_ended is ends
