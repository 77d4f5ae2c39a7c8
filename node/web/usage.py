"""How many bytes each client had the node keep today, told to Redis without a trip for each request.

A small request is counted here and told to Redis within a second, together with those of other clients, so an
acknowledgement does not wait for it; a large one, or many small ones, at once and before it is kept. So a client may
have at most BLOCK bytes more than its total in each process, and a process that is killed forgets at most as much.
"""

import asyncio
import time
from contextlib import suppress

from node.common.refusal import Refused
from node.share.capacity import Capacity
from node.share.cost import COSTS, Alarm, Kind
from node.store.errors import StoreUnavailable
from node.store.limits import LimitStore, Use

BLOCK = 64 * 1024
"""Bytes of one client that a process may keep to itself, at most."""

BLOCKS = 64
"""Of its total it keeps no more than this part to itself."""

SETTLE = 1.0
"""Seconds from one settlement to the next."""

ASK_AGAIN = 10.0
"""Seconds for which a process refuses by itself a client that has nothing left; the total may grow meanwhile."""

FINISHING = 1.25
"""How much more of its total a client may use to finish what is begun: claims, results, changes of status."""

_MEMORY = 10_000
"""Clients remembered as having nothing left; beyond it Redis is asked again."""


class Usage:
    """The bytes of all clients of one process."""

    def __init__(self, store: LimitStore, capacity: Capacity) -> None:
        self._store = store
        self._capacity = capacity
        self._owed: dict[str, int] = {}
        """Bytes that are kept and not yet told to Redis."""
        self._spent: dict[str, tuple[float, float]] = {}
        """Clients with nothing left: until when they are refused unasked, and until when they have nothing."""

    async def add(self, client: str, kind: Kind, size: int) -> None:
        """Count what a request with a body of `size` bytes leaves. Raises Refused `quota.bytes`, StoreUnavailable."""
        most = self._capacity.allowance
        if not most:
            return
        cost = COSTS[kind]
        used = cost.of(size)
        if cost.alarm is Alarm.NEVER:
            most = round(most * FINISHING)
        spent = self._spent.get(client) if self._spent else None
        if spent and cost.alarm is not Alarm.NEVER and time.monotonic() < spent[0]:
            raise self._refused(spent[1] - time.monotonic(), most)
        owed = self._owed.get(client, 0)
        if not spent and owed + used < min(BLOCK, most // BLOCKS):
            self._owed[client] = owed + used
            return
        self._owed.pop(client, None)
        [wait] = await self._store.take_bytes([Use(client, used, owed)], most)
        if wait is not None:
            if spent:
                self._remember(client, wait)
            raise self._refused(wait, most)
        self._spent.pop(client, None)

    async def run(self) -> None:
        """Settle every SETTLE seconds, until cancelled, and once more then."""
        try:
            while True:
                await asyncio.sleep(SETTLE)
                await self.settle()
        finally:
            await self.settle()

    async def settle(self) -> None:
        """Tell Redis of all that is not told. If it cannot be told it is forgotten: nothing is kept then either."""
        uses = [Use(client, 0, owed) for client, owed in self._owed.items()]
        self._owed.clear()
        most = self._capacity.allowance
        if not uses or not most:
            return
        with suppress(StoreUnavailable):
            for use, wait in zip(uses, await self._store.take_bytes(uses, most), strict=True):
                if wait is not None:
                    self._remember(use.client, wait)

    def _remember(self, client: str, wait: float) -> None:
        if len(self._spent) >= _MEMORY:
            self._spent.clear()
        now = time.monotonic()
        self._spent[client] = (now + min(wait, ASK_AGAIN), now + wait)

    def _refused(self, wait: float, most: int) -> Refused:
        return Refused("quota.bytes", retry_after=max(wait, 1.0), most=most)
