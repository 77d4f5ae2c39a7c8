"""How many bytes one client may move through a process.

Reading a large body and making a large answer take time of the event loop, which all clients of the process share. So
each client has a token bucket, in the memory of the process. Only bodies and answers of at least FREE_BYTES count, so
most requests cost nothing here. A client that has moved more than its bucket holds is refused until the bucket has
room again; other clients notice nothing.
"""

import time
from collections.abc import Callable

from node.common.refusal import Refused

FREE_BYTES = 16 * 1024
"""Smaller bodies and answers do not count: they cost less than the rest of their request."""

BURST_SECONDS = 16.0
"""What a client may move at once, in seconds of its rate: 64 MiB by default."""

BODY_WEIGHT = 2
"""Cost of a byte of a body, in bytes of an answer: JSON of many small parts, the English gate, digests. The most
expensive MiB takes 55 ms, so at the default rate a client uses a ninth of a core in the long run."""

MAX_CLIENTS = 10_000
"""Clients remembered. When there are more, those whose bucket is full again are forgotten; and those who have moved
least, until half as many are left, so that it takes thousands of new clients until the next time."""


class Throughput:
    """The token buckets of one process."""

    def __init__(self, rate: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`rate`: bytes of answers a second that one client may have in the long run; 0 is any number."""
        self._rate = rate
        self._clock = clock
        self._full_at: dict[str, float] = {}
        """When the bucket of each client is full again (monotonic seconds)."""
        self._over: set[str] = set()
        """Clients that have moved more than their bucket held."""

    def add(self, client: str, size: int, weight: int = 1) -> None:
        """Count a body or an answer of `size` bytes."""
        if size < FREE_BYTES or not self._rate:
            return
        now = self._clock()
        full_at = max(now, self._full_at.get(client, 0.0)) + size * weight / self._rate
        if len(self._full_at) >= MAX_CLIENTS and client not in self._full_at:
            self._forget(now)
        self._full_at[client] = full_at
        if full_at - now > BURST_SECONDS:
            self._over.add(client)

    def refusal(self, client: str) -> Refused | None:
        """`limit.throughput` for a client that has moved too much; None for all others."""
        if not self._over or client not in self._over:
            return None
        wait = self._full_at.get(client, 0.0) - BURST_SECONDS - self._clock()
        if wait > 0:
            return Refused("limit.throughput", retry_after=wait)
        self._over.discard(client)
        return None

    def _forget(self, now: float) -> None:
        """Forget the clients that matter least, half of them at least."""
        by_time = sorted((at, known) for known, at in self._full_at.items() if at > now)
        self._full_at = {known: at for at, known in by_time[-(MAX_CLIENTS // 2) :]}
        self._over &= self._full_at.keys()
