"""Counts the bytes that the node has kept for each client in the last 24 hours.

Redis keeps the totals. The process counts small requests itself and reports them to Redis once a second, for all
clients together, so that small requests do not wait for Redis. A large request is reported before it is carried out,
and so is a small one once its client or site has many unreported bytes. A client can therefore exceed its total by at
most MAX_UNREPORTED_BYTES for each process, and a site by SITE_SHARE times as many. A process that is killed loses no
more of the count than that.
"""

import time
from contextlib import suppress
from typing import NamedTuple

from node.common.refusal import Refused
from node.share.capacity import Capacity
from node.share.cost import COSTS, Alarm, Kind
from node.share.site import SITE_SHARE, site_of
from node.store.errors import StoreUnavailable
from node.store.limits import BytesRefused, ByteUse, LimitStore

MAX_UNREPORTED_BYTES = 64 * 1024
"""Most bytes of one client that a process may leave unreported."""

MAX_UNREPORTED_SHARE = 64
"""Unreported bytes are also limited to one in this many bytes of the client's total."""

REPORT_SECONDS = 1.0
"""Interval between two reports to Redis."""

MAX_REFUSAL_SECONDS = 10.0
"""How long a process refuses a client without asking Redis again, because the allowance may grow."""

FINISHING_FACTOR = 1.25
"""A client may use this many times its total for requests that finish what it has begun: claims, results, changes of
status."""

MAX_CLIENTS = 10_000
"""Clients and sites that are remembered as having used up their total. When there are more, all are forgotten and Redis
is asked again. Also the number of clients whose bytes are noted for the operator between two reports; further clients
are not noted."""


class UsedUp(NamedTuple):
    """A total that is used up. Times are in monotonic seconds."""

    refused_until: float
    """Until when the process refuses the client without asking Redis."""
    until: float
    """When there is room again, according to Redis."""


class Usage:
    """The bytes of all clients, as one process counts them."""

    def __init__(self, store: LimitStore, capacity: Capacity) -> None:
        self._store = store
        self._capacity = capacity
        self._unreported: dict[str, int] = {}
        """Unreported bytes by client. Negative if more bytes were given back than counted since the last report."""
        self._unreported_of_site: dict[str, int] = {}
        """Unreported bytes by site, summed over its clients."""
        self.noted: dict[str, int] = {}
        """Bytes by client since the last report to the operator (`node.web.activity`)."""
        self._used_up: dict[str, UsedUp] = {}
        """Clients and sites whose totals are used up."""

    async def add(self, client: str, kind: Kind, size: int) -> int:
        """Count the bytes that a request with a body of `size` bytes adds, and return their number.

        Raises Refused `quota.bytes`, StoreUnavailable.
        """
        total = self._capacity.allowance
        if not total:
            return 0
        cost = COSTS[kind]
        used = cost.of(size)
        is_finishing = cost.alarm is Alarm.NEVER
        if is_finishing:
            total = round(total * FINISHING_FACTOR)
        site = site_of(client)
        used_up = (self._used_up.get(site) or self._used_up.get(client)) if self._used_up else None
        if used_up and not is_finishing and time.monotonic() < used_up.refused_until:
            raise self._refused(used_up.until - time.monotonic(), total)
        unreported, of_site = self._unreported.get(client, 0), self._unreported_of_site.get(site, 0)
        share = min(MAX_UNREPORTED_BYTES, total // MAX_UNREPORTED_SHARE)
        if not used_up and unreported + used < share and of_site + used < share * SITE_SHARE:
            self._unreported[client] = unreported + used
            self._unreported_of_site[site] = of_site + used
            return used
        if unreported:
            del self._unreported[client]
            self._unreported_of_site[site] = of_site - unreported
        self._note(client, unreported)
        [over] = await self._store.take_bytes([ByteUse(client, used, unreported)], total)
        if over:
            if used_up:
                self._remember(client, over)
            raise self._refused(over.wait, total)
        self._note(client, used)
        if not is_finishing:  # room within the larger total says nothing about the usual one
            self._used_up.pop(client, None)
            self._used_up.pop(site, None)
        return used

    def give_back(self, client: str, used: int) -> None:
        """Stop counting bytes that `add` has counted, for a request of which the node keeps nothing.

        Redis learns of it with the next report.
        """
        if used:
            site = site_of(client)
            self._unreported[client] = self._unreported.get(client, 0) - used
            self._unreported_of_site[site] = self._unreported_of_site.get(site, 0) - used

    async def report(self) -> None:
        """Report the unreported bytes. If Redis cannot be reached they are dropped: in that case the node keeps nothing
        either."""
        uses = [ByteUse(client, 0, unreported) for client, unreported in self._unreported.items() if unreported]
        self._unreported.clear()
        self._unreported_of_site.clear()
        for use in uses:
            self._note(use.client, use.owed)
        total = self._capacity.allowance
        if not total:
            return
        with suppress(StoreUnavailable):
            for use, over in zip(uses, await self._store.take_bytes(uses, total), strict=True):
                if over:
                    self._remember(use.client, over)

    def _note(self, client: str, size: int) -> None:
        if client in self.noted or len(self.noted) < MAX_CLIENTS:
            self.noted[client] = self.noted.get(client, 0) + size

    def _remember(self, client: str, over: BytesRefused) -> None:
        if len(self._used_up) >= MAX_CLIENTS:
            self._used_up.clear()
        now = time.monotonic()
        name = site_of(client) if over.of_site else client
        self._used_up[name] = UsedUp(now + min(over.wait, MAX_REFUSAL_SECONDS), now + over.wait)

    def _refused(self, wait: float, total: int) -> Refused:
        return Refused("quota.bytes", retry_after=max(wait, 1.0), most=total)
