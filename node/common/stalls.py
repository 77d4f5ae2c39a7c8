"""Detects stalls of this process: times in which it was stopped or got no processor time. An answer may have arrived in
time during a stall, so a timeout then says nothing about the other side.
"""

import asyncio
import math
import time
from collections.abc import Callable

from node.common.stopping import sleep_unless_stopped

LOOK_SECONDS = 0.5
"""Time between two checks of the clock."""

HELD_UP_SECONDS = 3.0
"""A check that is this late means that the process was held up. This is the shortest timeout of an outgoing call, which
such a delay uses up by itself."""


class StallDetector:
    """Records when this process was last held up, by a monotonic clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._held_up_until = -math.inf

    async def watch(self, stop: asyncio.Event) -> None:
        """Check the clock until `stop` is set. The timer is short, so after a stall it fires before most timeouts."""
        while not stop.is_set():
            looked_at = self._clock()
            await sleep_unless_stopped(stop, LOOK_SECONDS)
            if self._clock() - looked_at >= LOOK_SECONDS + HELD_UP_SECONDS:
                self._held_up_until = self._clock()

    def was_held_up(self, since: float) -> bool:
        """Return whether the process was held up after the time `since`."""
        return self._held_up_until >= since
