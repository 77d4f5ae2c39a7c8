"""Operations that are charged by what they cost: after they were done, since only then it is known.

A limit counts requests; a client whose requests cost a hundred times as much as others' would take a hundred times
their share. So the cost of each is added to what the client owes, which is worked off evenly; a client that owes the
whole of its allowance is refused until it owes less. Redis keeps the account, so it holds for all processes.
"""

import asyncio
import math
import time

import structlog

from node.common import counters
from node.common.refusal import Refused
from node.config import Limit
from node.store.errors import StoreUnavailable
from node.store.work import Standing, WorkStore
from node.web.http import Request

log = structlog.get_logger()

_MEMORY = 10_000
"""Clients remembered as owing too much, per process; beyond it the store is asked again."""


class WorkLimit:
    """The allowance of one kind of work."""

    def __init__(self, kind: str, limit: Limit, unit: str, store: WorkStore) -> None:
        """`kind` is its class in `Limits`, `unit` what the limit counts, as in "over 10 pages in 60 s"."""
        self._kind = kind
        self._limit = limit
        self._unit = unit
        self._store = store
        self._refused_until: dict[str, float] = {}
        self._charging: set[asyncio.Task[None]] = set()

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
        """Count what was done for a client; its answer does not wait for that."""
        if self._limit.count and amount:
            task = asyncio.create_task(self._charge(client, amount))
            self._charging.add(task)
            task.add_done_callback(self._charging.discard)

    async def settled(self) -> None:
        """Return once everything that was charged is counted."""
        while self._charging:
            await asyncio.wait(self._charging)

    async def _charge(self, client: str, amount: int) -> None:
        try:
            self._remembered(client, await self._store.spend(self._kind, client, amount, self._limit))
        except StoreUnavailable as error:  # the work is done, and its answer on the way
            log.warning("work not charged", kind=self._kind, amount=amount, reason=str(error))

    def _remembered(self, client: str, standing: Standing) -> float:
        """The seconds that a client has to wait now, of which this process takes note."""
        if standing.wait:
            if len(self._refused_until) >= _MEMORY:
                self._refused_until.clear()
            self._refused_until[client] = time.monotonic() + standing.wait
        return standing.wait

    def _refuse(self, request: Request, wait: float) -> None:
        kind, limit = self._kind.encode(), self._limit
        request.notes.append((b"ratelimit-policy", b'"%s";q=%d;w=%d' % (kind, limit.count, limit.seconds)))
        request.notes.append((b"ratelimit", b'"%s";r=0;t=%d' % (kind, math.ceil(wait))))
        counters.OVER[self._kind] += 1
        raise Refused("limit.work", retry_after=wait, count=limit.count, unit=self._unit, seconds=limit.seconds)
