"""Clients that a process refuses by itself, because Redis has said for how long they are over a limit."""

import time
from typing import TypeVar

MAX_REFUSED_CLIENTS = 10_000
"""Clients that are remembered for one kind of limit; when there are more, all are forgotten and Redis is asked."""

K = TypeVar("K")


class RefusedUntil(dict[K, float]):
    """When each of them may come again, in monotonic seconds."""

    def remember(self, key: K, seconds: float) -> None:
        """Refuse for so many seconds from now on."""
        if len(self) >= MAX_REFUSED_CLIENTS:
            self.clear()
        self[key] = time.monotonic() + seconds

    def wait(self, key: K) -> float:
        """Seconds for which to refuse still; 0 for none."""
        until = self.get(key)
        if until is None:
            return 0.0
        wait = until - time.monotonic()
        if wait > 0:
            return wait
        del self[key]
        return 0.0
