"""Limits for operations that are charged by their cost, which is known only when they are done.

A limit of requests alone would let a client with very expensive requests take a large share of the node. So the cost of
each request is added to the client's debt, which decreases evenly with time. A client whose debt has reached the limit
is refused until it owes less. Redis keeps the debts, for all processes.
"""

import asyncio
import math
import time

import structlog

from node.common import counters
from node.common.refusal import Refused
from node.config import Limit
from node.store.errors import StoreUnavailable
from node.store.work import WorkStore
from node.web.http import Request

log = structlog.get_logger()

MAX_REFUSED_CLIENTS = 10_000
"""Clients that a process remembers as over the limit; when there are more, it forgets all and asks Redis again."""


class WorkLimit:
    """The limit for one kind of work."""

    def __init__(self, kind: str, limit: Limit, unit: str, store: WorkStore) -> None:
        """`kind` is the limit's class in `Limits`, `unit` what it counts, as in "over 10 pages in 60 s"."""
        self._kind = kind
        self._limit = limit
        self._unit = unit
        self._store = store
        self._refused_until: dict[str, float] = {}
        """When a client may come again (monotonic seconds)."""
        self._charging: set[asyncio.Task[None]] = set()

    def change(self, limit: Limit) -> None:
        """Apply this limit from now on."""
        self._limit = limit
        self._refused_until.clear()

    async def admit(self, request: Request) -> None:
        """Refuse a client that owes too much. Raises Refused `limit.work`, StoreUnavailable."""
        if not self._limit.count:
            return
        wait = self._refused_until.get(request.client, 0.0) - time.monotonic()
        if wait <= 0:
            self._refused_until.pop(request.client, None)
            wait = self._remembered(request.client, await self._store.spend(self._kind, request.client, 0, self._limit))
        if wait > 0:
            self._refuse(request, wait)

    def charge(self, client: str, amount: int) -> None:
        """Charge a client for work that is done. The answer does not wait for Redis."""
        if self._limit.count and amount:
            task = asyncio.create_task(self._charge(client, amount))
            self._charging.add(task)
            task.add_done_callback(self._charging.discard)

    async def settled(self) -> None:
        """Return when Redis has counted everything that was charged."""
        while self._charging:
            await asyncio.wait(self._charging)

    async def _charge(self, client: str, amount: int) -> None:
        try:
            self._remembered(client, await self._store.spend(self._kind, client, amount, self._limit))
        except StoreUnavailable as error:  # the work is done and its answer sent, so nothing can be refused any more
            log.warning("work not charged", kind=self._kind, amount=amount, reason=str(error))

    def _remembered(self, client: str, wait: float) -> float:
        """Remember how many seconds a client has to wait, and return them."""
        if wait:
            if len(self._refused_until) >= MAX_REFUSED_CLIENTS:
                self._refused_until.clear()
            self._refused_until[client] = time.monotonic() + wait
        return wait

    def _refuse(self, request: Request, wait: float) -> None:
        kind, limit = self._kind.encode(), self._limit
        request.notes.append((b"ratelimit-policy", b'"%s";q=%d;w=%d' % (kind, limit.count, limit.seconds)))
        request.notes.append((b"ratelimit", b'"%s";r=0;t=%d' % (kind, math.ceil(wait))))
        counters.OVER[self._kind] += 1
        raise Refused("limit.work", retry_after=wait, count=limit.count, unit=self._unit, seconds=limit.seconds)
