"""Remembers the clients that a process refuses without asking Redis: Redis has said how long they are over a limit."""

import time
from typing import TypeVar

MAX_REFUSED_CLIENTS = 10_000
"""Clients that are remembered. When there are more, all are forgotten and Redis is asked again."""

K = TypeVar("K")


class RefusedUntil(dict[K, float]):
    """Until when each client is refused (monotonic seconds)."""

    def remember(self, key: K, seconds: float) -> None:
        """Refuse the client for `seconds` from now on."""
        if len(self) >= MAX_REFUSED_CLIENTS:
            self.clear()
        self[key] = time.monotonic() + seconds

    def wait(self, key: K) -> float:
        """Return for how many more seconds a client is refused; 0 if it is not."""
        until = self.get(key)
        if until is None:
            return 0.0
        wait = until - time.monotonic()
        if wait > 0:
            return wait
        del self[key]
        return 0.0
