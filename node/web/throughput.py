"""How many bytes one client may move through a process: reading a large body and making a large answer take the time of
its event loop, which all its clients share.

A token bucket for each client, in the memory of the process: what is shared out is this process' own time. Only what
is larger than FREE counts, so that the acknowledgement of a usual message costs nothing more. A client that has
moved more than BURST at once is refused until it has worked that off; nobody else notices it.
"""

import time
from collections.abc import Callable

from node.common.refusal import Refused

FREE = 16 * 1024
"""Bytes of a body or an answer below which the request itself costs more than they do."""

BURST = 16.0
"""Seconds of its rate that a client may have at once: 64 MiB by default."""

BODY_WEIGHT = 2
"""How much more a byte of a body costs than one of an answer: JSON of many small parts, the gate, digests. A MiB of the
worst takes 34 ms, so that a client of the default rate takes a fourteenth of a core in the long run."""

_MEMORY = 10_000
"""Clients remembered; when there are more, those that are out of debt are forgotten."""


class Throughput:
    """The buckets of one process: for each client the time (monotonic seconds) at which it has moved nothing lately."""

    def __init__(self, rate: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`rate`: bytes of answers a second that one client may have in the long run; 0 is any number."""
        self._rate = rate
        self._clock = clock
        self._free_at: dict[str, float] = {}
        self._in_debt: set[str] = set()

    def add(self, client: str, size: int, weight: int = 1) -> None:
        """Count a body or an answer of `size` bytes; one below FREE is none."""
        if size < FREE or not self._rate:
            return
        now = self._clock()
        free_at = max(now, self._free_at.get(client, 0.0)) + size * weight / self._rate
        if len(self._free_at) >= _MEMORY and client not in self._free_at:
            self._free_at = {known: at for known, at in self._free_at.items() if at > now}
        self._free_at[client] = free_at
        if free_at - now > BURST:
            self._in_debt.add(client)

    def refusal(self, client: str) -> Refused | None:
        """What a client is told that has moved too much: `limit.throughput`."""
        if not self._in_debt or client not in self._in_debt:
            return None
        wait = self._free_at.get(client, 0.0) - BURST - self._clock()
        if wait > 0:
            return Refused("limit.throughput", retry_after=wait)
        self._in_debt.discard(client)
        return None
