"""Limits for operations that are charged by their cost, which is known only after the work is done.

A limit on the number of requests would not keep a client with very expensive requests from taking a large share of the
node. So the cost of each request is added to the client's debt, which decreases at a constant rate. A client whose debt
has reached the limit is refused until its debt is below the limit. Redis keeps the debts, for all processes.
"""

import asyncio
import math

import structlog

from node.common import counters
from node.common.refusal import Refused
from node.config import Limit
from node.store.errors import StoreUnavailable
from node.store.work import WorkStore
from node.web.http import Request
from node.web.refused_until import RefusedUntil

log = structlog.get_logger()


class WorkLimit:
    """The limit for one kind of work."""

    def __init__(self, kind: str, limit: Limit, unit: str, store: WorkStore) -> None:
        """`kind`: the class of the limit in `Limits`. `unit`: the unit of work, as in "over 10 pages in 60 s"."""
        self._kind = kind
        self._limit = limit
        self._unit = unit
        self._store = store
        self._refused_until = RefusedUntil[str]()
        self._charging: set[asyncio.Task[None]] = set()

    def change(self, limit: Limit) -> None:
        """Apply this limit from now on."""
        self._limit = limit
        self._refused_until.clear()

    async def admit(self, request: Request) -> None:
        """Refuse a client whose debt is too large. Raises Refused `limit.work`, StoreUnavailable."""
        if not self._limit.count:
            return
        if wait := self._refused_until.wait(request.client) or await self._spend(request.client, 0):
            self._refuse(request, wait)

    def charge(self, client: str, amount: int) -> None:
        """Charge a client for work that is done. The answer does not wait for Redis."""
        if self._limit.count and amount:
            task = asyncio.create_task(self._charge(client, amount))
            self._charging.add(task)
            task.add_done_callback(self._charging.discard)

    async def settled(self) -> None:
        """Return when Redis has counted all charges made so far."""
        while self._charging:
            await asyncio.wait(self._charging)

    async def _charge(self, client: str, amount: int) -> None:
        try:
            await self._spend(client, amount)
        except StoreUnavailable as error:  # the answer is already sent: too late to refuse it
            log.warning("work not charged", kind=self._kind, amount=amount, reason=str(error))

    async def _spend(self, client: str, amount: int) -> float:
        """Add to a client's debt. Return for how many seconds the client is then refused. Raises StoreUnavailable."""
        wait = await self._store.spend(self._kind, client, amount, self._limit)
        if wait:
            self._refused_until.remember(client, wait)
        return wait

    def _refuse(self, request: Request, wait: float) -> None:
        kind, limit = self._kind.encode(), self._limit
        request.answer_headers.append((b"ratelimit-policy", b'"%s";q=%d;w=%d' % (kind, limit.count, limit.seconds)))
        request.answer_headers.append((b"ratelimit", b'"%s";r=0;t=%d' % (kind, math.ceil(wait))))
        counters.LIMIT_REFUSED[self._kind] += 1
        raise Refused("limit.work", retry_after=wait, count=limit.count, unit=self._unit, seconds=limit.seconds)
