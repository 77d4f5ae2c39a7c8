"""Notices that this process was held up: it was stopped, or got no processor time. An answer that it waited for may
have come in time all the same, so a timeout then says nothing about the other side.
"""

import asyncio
import math
import time
from collections.abc import Callable

from node.common.stopping import sleep_unless_stopped

LOOK_SECONDS = 0.5
"""Time between two looks at the clock."""

HELD_UP_SECONDS = 3.0
"""A look that comes this late shows that the process was held up. It is the shortest timeout of an outgoing call, which
such a delay uses up by itself."""


class StallDetector:
    """When this process was last found to have been held up, by a monotonic clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._held_up_until = -math.inf

    async def watch(self, stop: asyncio.Event) -> None:
        """Look until `stop` is set. Of timers that expire while the process is held up, this one is among the first."""
        while not stop.is_set():
            looked_at = self._clock()
            await sleep_unless_stopped(stop, LOOK_SECONDS)
            if self._clock() - looked_at >= LOOK_SECONDS + HELD_UP_SECONDS:
                self._held_up_until = self._clock()

    def was_held_up(self, since: float) -> bool:
        """Whether the process was held up after that time."""
        return self._held_up_until >= since
