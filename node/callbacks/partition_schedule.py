"""When a process reads each partition for callbacks that are due, so that it need not poll all of them all the time.

A process knows when something is due that it put into a partition itself, or saw there. What other processes put there
it finds at the next regular read.
"""

import asyncio

from node.store import ids


class PartitionSchedule:
    """The time of the next read of each partition."""

    def __init__(self, interval: float) -> None:
        """`interval`: seconds between two reads of a partition in which nothing is known to be due."""
        self._interval = interval
        self._read_at = [0.0] * ids.PARTITIONS
        """In loop time."""
        self._is_sooner = asyncio.Event()
        """Set when a partition is to be read earlier than was planned."""

    def due_in(self, partition: int, seconds: float = 0.0) -> None:
        """Read a partition after so many seconds, if not before."""
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
        """Return when a partition may be due, or when `stop` is set."""
        left = min(self._read_at) - asyncio.get_running_loop().time()
        waiting = {asyncio.create_task(self._is_sooner.wait()), asyncio.create_task(stop.wait())}
        try:
            await asyncio.wait(waiting, timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
