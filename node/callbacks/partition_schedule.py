"""When to look into which partition for what is due by the clock, so that nobody looks all the time.

A process knows the times of what it puts there itself and of what it sees when it looks. What another
process put there it meets when it looks at everything, which it does now and then.
"""

import asyncio

from node.store import ids


class PartitionSchedule:
    """The next look into each partition."""

    def __init__(self, longest: float) -> None:
        """`longest`: seconds between two looks into a partition in which nothing is expected."""
        self._longest = longest
        self._looks = [0.0] * ids.PARTITIONS
        """In loop time."""
        self._sooner = asyncio.Event()

    def expect(self, partition: int, seconds: float = 0.0) -> None:
        """Look into a partition in that time, if not before."""
        at = asyncio.get_running_loop().time() + seconds
        if at < self._looks[partition]:
            self._looks[partition] = at
            self._sooner.set()

    def due(self) -> list[int]:
        """The partitions to look into now."""
        self._sooner.clear()
        now = asyncio.get_running_loop().time()
        found = [partition for partition, at in enumerate(self._looks) if at <= now]
        for partition in found:
            self._looks[partition] = now + self._longest
        return found

    async def wait(self, stop: asyncio.Event) -> None:
        """Return when a partition may be due, or when `stop` is set."""
        left = min(self._looks) - asyncio.get_running_loop().time()
        waiting = {asyncio.create_task(self._sooner.wait()), asyncio.create_task(stop.wait())}
        try:
            await asyncio.wait(waiting, timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
