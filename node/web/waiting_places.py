"""Bounds the requests of one client that wait in a process: for a change (`wait=`), or for the rest of a slow body.

For as long as a request waits, the memory of the process holds what has come of its body. So a request also counts by
its size: what a process holds for one client is bounded, however many connections it has.
"""

from collections import Counter
from typing import ClassVar

from node.common.refusal import Refused
from node.share.capacity import share_of
from node.share.site import site_of

MAX_WAITING_PER_CLIENT = 2048
"""Requests with `wait=` of one client in one process: a quarter of all that may wait there (RELAY_MAX_WAITING)."""

MAX_WAITING_PER_SITE = 4096
"""The same for one IPv6 /48: half of all."""

MAX_WAITING_IN_ALL = 16_384
"""Places of all clients together, 256 MiB of bodies. Once half of them are taken, a client and a site may have fewer
and fewer (`share_of`): otherwise forty addresses could hold 1.3 GB. All requests that a process takes (`launch`) need a
quarter."""

MIN_PLACES = 65
"""Places that a client may have in any case: for a body of the largest size, and a wait."""

WAITING_BYTES = 16 * 1024
"""Bytes of a body for which its request takes one more place. While the rest of the body is to come, the request takes
only such places."""

WAITING_BY_CLIENT: Counter[str] = Counter()
"""How many requests of each client wait in this process now."""

WAITING_BY_SITE: Counter[str] = Counter()
"""How many requests of the clients of each site wait."""


class WaitingPlaces:
    """The places that one request has among those of its client and site, until it is left as a context manager."""

    __slots__ = ("_among", "_taken")

    in_all: ClassVar[int] = 0
    """The places of all requests of this process."""

    def __init__(self, client: str) -> None:
        self._among = (
            (WAITING_BY_CLIENT, client, MAX_WAITING_PER_CLIENT),
            (WAITING_BY_SITE, site_of(client), MAX_WAITING_PER_SITE),
        )
        self._taken = 0

    def take(self, size: int, requests: int = 0, retry_after: float = 1.0) -> None:
        """Have as many places in all as `size` bytes take, and `requests` more.

        Raises Refused `limit.waiting` if the client or its site has too few left.
        """
        more = requests + size // WAITING_BYTES - self._taken
        if not more:
            return
        taken = WaitingPlaces.in_all / MAX_WAITING_IN_ALL
        for counter, name, most in self._among:
            now = max(share_of(most, taken), min(most, MIN_PLACES))
            if counter[name] + more > now:
                raise Refused("limit.waiting", retry_after=retry_after, most=now)
        self._add(more)

    def _add(self, number: int) -> None:
        self._taken += number
        WaitingPlaces.in_all += number
        for counter, name, _ in self._among:
            counter[name] += number
            if not counter[name]:
                del counter[name]

    def __enter__(self) -> "WaitingPlaces":
        return self

    def __exit__(self, *_: object) -> None:
        self._add(-self._taken)
