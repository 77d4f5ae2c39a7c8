"""Limits how many requests of one client wait in a process: for a change (`wait=`), or for the rest of a slow body.

While a request waits, the process holds the part of its body that has arrived. A request therefore also counts by its
size, so that the memory held for one client is bounded, however many connections it has.
"""

from collections import Counter
from typing import ClassVar

from node.common.refusal import Refused
from node.share.capacity import share_of
from node.share.site import site_of

MAX_WAITING_PER_CLIENT = 2048
"""Places of one client in one process. A request with `wait=` takes at least one, so a client may have a quarter of all
requests that may wait (RELAY_MAX_WAITING)."""

MAX_WAITING_PER_SITE = 4096
"""Places of one IPv6 /48 in one process: half of the requests that may wait."""

MAX_WAITING_IN_ALL = 16_384
"""Places of all clients together: 256 MiB of bodies. Once half of them are taken, each client and site may have fewer
and fewer (`share_of`); otherwise forty addresses could hold 1.3 GB. One request on each open connection of a process
(BACKPRESSURE of `node.run.launch`) would need a quarter of the places."""

MIN_PLACES = 65
"""Places that a client may always have: enough for one body of the largest size, and one wait."""

WAITING_BYTES = 16 * 1024
"""Body bytes for which a request takes one more place. Until its body is complete, a request takes only places of this
kind."""

WAITING_BY_CLIENT: Counter[str] = Counter()
"""Places that each client has taken in this process."""

WAITING_BY_SITE: Counter[str] = Counter()
"""Places that the clients of each site have taken in this process."""


class WaitingPlaces:
    """The places that one request has taken among those of its client and site. Leaving the context frees them."""

    __slots__ = ("_among", "_taken")

    in_all: ClassVar[int] = 0
    """Places that all requests of this process have taken."""

    def __init__(self, client: str) -> None:
        self._among = (
            (WAITING_BY_CLIENT, client, MAX_WAITING_PER_CLIENT),
            (WAITING_BY_SITE, site_of(client), MAX_WAITING_PER_SITE),
        )
        self._taken = 0

    def take(self, size: int, requests: int = 0, retry_after: float = 1.0) -> None:
        """Set the number of places of this request to what `size` bytes take, plus `requests`.

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
