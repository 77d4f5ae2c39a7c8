"""When to look into which partition: everywhere now and then, and where something is due, then."""

import asyncio

from node.callbacks.partition_schedule import PartitionSchedule
from node.store import ids

EVERYWHERE = list(range(ids.PARTITIONS))
FOREVER = 1000.0


async def test_the_first_look_goes_everywhere_and_the_next_one_nowhere() -> None:
    agenda = PartitionSchedule(FOREVER)
    assert agenda.due() == EVERYWHERE
    assert agenda.due() == []


async def test_what_is_expected_ends_the_wait_when_it_is_due() -> None:
    agenda, stop = PartitionSchedule(FOREVER), asyncio.Event()
    agenda.due()
    agenda.expect(7, 0.02)
    agenda.expect(7, 500)
    async with asyncio.timeout(20):
        while not (due := agenda.due()):
            await agenda.wait(stop)
    assert due == [7]


async def test_something_sooner_ends_a_wait_that_has_begun() -> None:
    agenda, stop = PartitionSchedule(FOREVER), asyncio.Event()
    agenda.due()
    waiting = asyncio.create_task(agenda.wait(stop))
    await asyncio.sleep(0)
    agenda.expect(3)
    async with asyncio.timeout(20):
        await waiting
    assert agenda.due() == [3]


async def test_what_comes_up_during_a_look_is_looked_at_next() -> None:
    agenda, stop = PartitionSchedule(FOREVER), asyncio.Event()
    assert agenda.due() == EVERYWHERE
    agenda.expect(5)
    async with asyncio.timeout(20):
        await agenda.wait(stop)
    assert agenda.due() == [5]


async def test_a_stop_ends_the_wait() -> None:
    agenda, stop = PartitionSchedule(FOREVER), asyncio.Event()
    agenda.due()
    stop.set()
    async with asyncio.timeout(20):
        await agenda.wait(stop)


async def test_everything_is_looked_at_again_after_the_longest_time() -> None:
    agenda, stop = PartitionSchedule(0.01), asyncio.Event()
    agenda.due()
    async with asyncio.timeout(20):
        while agenda.due() != EVERYWHERE:
            await agenda.wait(stop)
