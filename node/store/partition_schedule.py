"""When a worker reads each partition for what is due (`node.store.due`): callbacks, and checks of agents.

It need not poll all partitions all the time. A process knows when something is due that it has put into a partition
itself, or has seen there. What other processes put there it finds at the next regular read.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from node.common.cancellation import ended_before
from node.common.stopping import sleep_unless_stopped
from node.store import ids
from node.store.errors import StoreUnavailable

PAUSE_SECONDS = 0.5
"""Time until the next look when too much is under way, or Redis is out of reach."""

STOP_SECONDS = 3.0
"""How long work under way may take when the worker stops. What is cut off then becomes due again."""

T = TypeVar("T")


class PartitionSchedule:
    """The time of the next read of each partition."""

    def __init__(self, interval: float) -> None:
        """`interval`: seconds between two reads of a partition in which nothing is known to be due."""
        self._interval = interval
        self._read_at = [0.0] * ids.PARTITIONS
        """When each partition is read next, in loop time."""
        self._is_sooner = asyncio.Event()
        """Set when a partition is to be read earlier than was planned."""

    def due_in(self, partition: int, seconds: float = 0.0) -> None:
        """Read a partition in `seconds` at the latest."""
        at = asyncio.get_running_loop().time() + seconds
        if at < self._read_at[partition]:
            self._read_at[partition] = at
            self._is_sooner.set()

    def due(self) -> list[int]:
        """The partitions to read now. The next regular read of each is an interval from now."""
        self._is_sooner.clear()
        now = asyncio.get_running_loop().time()
        found = [partition for partition, at in enumerate(self._read_at) if at <= now]
        for partition in found:
            self._read_at[partition] = now + self._interval
        return found

    async def wait(self, stop: asyncio.Event) -> None:
        """Return when a partition may be due, or `stop` is set."""
        left = min(self._read_at) - asyncio.get_running_loop().time()
        with suppress(TimeoutError):
            async with asyncio.timeout(left):
                await ended_before(asyncio.create_task(self._is_sooner.wait()), asyncio.create_task(stop.wait()))


async def run_due(
    schedule: PartitionSchedule,
    take: Callable[[Sequence[int]], Awaitable[Sequence[T]]],
    work: Callable[[T], Coroutine[Any, Any, None]],
    *,
    most: int,
    stop: asyncio.Event,
) -> None:
    """Take what is due, and work on all of it at the same time, until `stop` is set. Then work has STOP_SECONDS to end.

    `take` is given partitions and may raise StoreUnavailable; `work` raises nothing. Nothing more is taken while there
    is work on `most` or more.
    """
    under_way: set[asyncio.Task[None]] = set()
    async with asyncio.TaskGroup() as tasks:
        while not stop.is_set():
            if len(under_way) >= most:
                await sleep_unless_stopped(stop, PAUSE_SECONDS)
                continue
            partitions = schedule.due()
            try:
                taken = await take(partitions)
            except StoreUnavailable:
                for partition in partitions:
                    schedule.due_in(partition)
                await sleep_unless_stopped(stop, PAUSE_SECONDS)
                continue
            for each in taken:
                task = tasks.create_task(work(each))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
            await schedule.wait(stop)
        if under_way:
            _, late = await asyncio.wait(under_way, timeout=STOP_SECONDS)
            for task in late:
                task.cancel()
