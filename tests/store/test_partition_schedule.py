"""When to look into which partition: into all of them at intervals, and in time into those where something is due."""

import asyncio

from node.store import ids
from node.store.partition_schedule import PartitionSchedule
from tests.support.servers import PATIENCE

EVERYWHERE = list(range(ids.PARTITIONS))
FOREVER = 1000.0


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
