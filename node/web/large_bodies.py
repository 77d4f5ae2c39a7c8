"""Splits the work on a large body into steps, with pauses between them while several clients use the process."""

import asyncio
from collections.abc import Callable
from time import monotonic

from node.common.refusal import Refused

LARGE_BODY = 128 * 1024
"""Bodies of this many bytes or more are processed in steps: 1 MiB of JSON takes 20 ms, its parser alone 10 ms."""

LARGE_BYTES_A_SECOND = 50 * 1024 * 1024
"""While several clients use the process, a step gets one second for this many bytes of its body. It works for at most
half of that time, which leaves the other half to the requests of others."""

MAX_STEP_WAIT_SECONDS = 2.0
"""Longest wait for a step. It bounds the large bodies that a process holds for all clients at a time to 100 MiB."""


class LargeBodySteps:
    """Decides when a process may take its next step for a large body (DESIGN 13.3)."""

    def __init__(self, is_shared: Callable[[], bool]) -> None:
        """`is_shared`: whether several clients are using the process now."""
        self._is_shared = is_shared
        self._next_at = 0.0
        """When the next step may begin (monotonic seconds)."""

    async def wait(self, size: int) -> None:
        """Wait until a step for a body of `size` bytes may begin.

        Raises Refused `store.busy` if the wait would be too long, because many clients send large bodies.
        """
        now = begin = monotonic()
        if self._is_shared():
            begin = max(now, self._next_at)
            if begin - now > MAX_STEP_WAIT_SECONDS:
                raise Refused("store.busy", retry_after=begin - now)
            self._next_at = begin + size / LARGE_BYTES_A_SECOND
        await asyncio.sleep(begin - now)
