"""Limits how many bytes one client may move through a process; a site may move SITE_SHARE times as many.

Reading a large body and making a large answer take time of the event loop, which all clients of the process share. Each
client therefore has a token bucket in the memory of the process. Bodies and answers of at least FREE_BYTES count. While
several clients use the process, each request also counts as REQUEST_COST. A client that has moved more than its bucket
holds is refused until the bucket has room again; other clients are not affected.
"""

import time
from collections.abc import Callable
from operator import itemgetter

from node.common.refusal import Refused
from node.share.site import SITE_SHARE, site_of

FREE_BYTES = 16 * 1024
"""Bodies and answers smaller than this do not count: they cost less than the rest of their request."""

BURST_SECONDS = 16.0
"""Size of the bucket, in seconds of the client's rate: 64 MiB by default."""

REQUEST_COST = 8 * 1024
"""Cost of a request that begins while others use the process, in bytes of an answer: 0.4 ms. Most reads take less, most
writes more. At the default rate this gives one client 512 requests a second in the long run, and 1,024 at once."""

BODY_WEIGHT = 2
"""Cost of one byte of a body, in bytes of an answer. It covers JSON of many small parts, the English gate, digests, and
the search for hidden characters. The most expensive MiB takes 0.1 s if it comes in few pieces, so at the default rate
one client uses a fifth of a core in the long run."""

UNPACED_SECONDS = 2.0
"""Burst that a client may move without pauses while others use the process, in seconds of its rate. Requests beyond it
begin at the client's rate."""

MAX_PAUSE_SECONDS = 1.0
"""Longest pause before a request of a client beyond that burst."""

MAX_CLIENTS = 10_000
"""Clients and sites that are remembered. When there are more, those that have moved least are forgotten, until half of
MAX_CLIENTS are left. So this happens only once in thousands of new clients."""


class Throughput:
    """The token buckets of one process."""

    def __init__(self, rate: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`rate`: bytes of answers that one client may get in the long run, per second. 0: any number."""
        self._rate = rate
        self._clock = clock
        self._full_at: dict[str, float] = {}
        """When the bucket of each client or site will be full again (monotonic seconds)."""
        self._next_at: dict[str, float] = {}
        """When the next request of each client or site beyond UNPACED_SECONDS may begin (monotonic seconds)."""
        self._over: set[str] = set()
        """Clients and sites that have moved more than their buckets hold."""

    def add(self, client: str, size: int, weight: int = 1) -> None:
        """Count a body or an answer of `size` bytes."""
        if size >= FREE_BYTES:
            self._count(client, size * weight)

    def add_request(self, client: str) -> None:
        """Count a request that begins while others use the process, whatever its size."""
        self._count(client, REQUEST_COST)

    def refusal(self, client: str) -> Refused | None:
        """Return `limit.throughput` if this client or its site has moved too much; None otherwise."""
        if not self._over:
            return None
        wait = max(self._wait(client), self._wait(site_of(client)))
        return Refused("limit.throughput", retry_after=wait) if wait > 0 else None

    def pause(self, client: str) -> float:
        """Return the seconds until the client's next request should begin if others use the process; usually 0."""
        if not self._next_at:
            return 0.0
        return max(self._pause(client), self._pause(site_of(client)))

    def _count(self, client: str, size: int) -> None:
        if not self._rate:
            return
        seconds = size / self._rate
        self._take(client, seconds)
        if (site := site_of(client)) != client:
            self._take(site, seconds / SITE_SHARE)

    def _take(self, name: str, seconds: float) -> None:
        now = self._clock()
        full_at = max(now, self._full_at.get(name, 0.0)) + seconds
        if len(self._full_at) >= MAX_CLIENTS:
            self._forget()
        self._full_at[name] = full_at
        if full_at - now > UNPACED_SECONDS:
            self._next_at[name] = min(max(now, self._next_at.get(name, 0.0)) + seconds, now + MAX_PAUSE_SECONDS)
        if full_at - now > BURST_SECONDS:
            self._over.add(name)

    def _pause(self, name: str) -> float:
        pause = self._next_at.get(name, 0.0) - self._clock()
        if pause > 0:
            return pause
        self._next_at.pop(name, None)
        return 0.0

    def _wait(self, name: str) -> float:
        """Return the seconds until a client or site may move bytes again; 0 if it may do so now."""
        if name not in self._over:
            return 0.0
        wait = self._full_at[name] - BURST_SECONDS - self._clock()
        if wait > 0:
            return wait
        self._over.discard(name)
        return 0.0

    def _forget(self) -> None:
        """Forget half of the clients and sites, those that have moved least."""
        self._full_at = dict(sorted(self._full_at.items(), key=itemgetter(1))[-(MAX_CLIENTS // 2) :])
        self._over &= self._full_at.keys()
        self._next_at = {known: at for known, at in self._next_at.items() if known in self._full_at}
