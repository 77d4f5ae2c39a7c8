"""Decides when a worker reads each partition for due entries (`node.store.due`): callbacks, and checks of agents.

The worker need not poll all partitions all the time. It knows the due time of entries that it has put into a partition
itself or has seen there, and finds entries from other processes at the next regular read.
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
"""Pause before the next attempt when too much work is under way, or Redis is out of reach."""

STOP_SECONDS = 3.0
"""Grace period for work under way when the worker stops. Entries whose work is cut off become due again."""

T = TypeVar("T")


class PartitionSchedule:
    """The time of the next read of each partition."""

    def __init__(self, interval: float) -> None:
        """`interval`: seconds between two reads of a partition in which nothing is known to be due."""
        self._interval = interval
        self._read_at = [0.0] * ids.PARTITIONS
        """Loop time of the next read of each partition."""
        self._is_sooner = asyncio.Event()
        """Set when the read of a partition was moved forward."""

    def due_in(self, partition: int, seconds: float = 0.0) -> None:
        """Have a partition read in at most `seconds`."""
        at = asyncio.get_running_loop().time() + seconds
        if at < self._read_at[partition]:
            self._read_at[partition] = at
            self._is_sooner.set()

    def due(self) -> list[int]:
        """Return the partitions to read now, and schedule their next regular read an interval from now."""
        self._is_sooner.clear()
        now = asyncio.get_running_loop().time()
        found = [partition for partition, at in enumerate(self._read_at) if at <= now]
        for partition in found:
            self._read_at[partition] = now + self._interval
        return found

    async def wait(self, stop: asyncio.Event) -> None:
        """Wait until a partition may be due, or `stop` is set."""
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
    """Take due entries and work on them concurrently until `stop` is set. Then work under way has STOP_SECONDS to end.

    `take` gets the partitions to read and may raise StoreUnavailable; `work` raises nothing. While `most` or more
    entries are being worked on, no more are taken.
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
