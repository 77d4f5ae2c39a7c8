"""Limits per client address, and the headers that tell clients where they stand.

`RateLimit-Policy` and `RateLimit` follow draft-ietf-httpapi-ratelimit-headers-10. A process that
has been told "over the limit" refuses that client by itself until the time it was told, so that a
flood does not reach the store.
"""

import math
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Literal

import msgspec

from node.common import counters
from node.common.refusal import Refused
from node.config import Limit, Limits, Settings
from node.share.capacity import Capacity
from node.share.cost import Kind
from node.store import StoreUnavailable
from node.store.limits import LimitStore, Taken
from node.web.http import Request
from node.web.usage import Usage

_MEMORY = 10_000
"""Clients remembered as over the limit, per process; beyond it the store is asked again."""


DAY = 86_400.0


class Quotas(msgspec.Struct, frozen=True):
    """What one client may hold or send in all; 0 is any amount."""

    session: int = 0
    """Live sessions."""
    board: int = 0
    """Threads in 24 hours."""
    task: int = 0
    """Contracts in 24 hours."""

    @classmethod
    def of(cls, settings: Settings) -> "Quotas":
        """Those of the settings."""
        return cls(settings.client_sessions, settings.client_threads, settings.client_tasks)


class Limiter:
    """All limits of one process."""

    def __init__(
        self, limits: Limits, store: LimitStore, quotas: Quotas | None = None, capacity: Capacity | None = None
    ) -> None:
        self._quotas = quotas or Quotas()
        self._capacity = capacity or Capacity()
        self.usage = Usage(store, self._capacity)
        self._limits: dict[str, Limit] = {name: getattr(limits, name) for name in Limits.__struct_fields__}
        self._policies = {name: _policy(name, limit) for name, limit in self._limits.items()}
        self._store = store
        self._refused_until: dict[tuple[str, str], float] = {}

    def of(self, kind: str) -> Limit:
        """The limit of a class."""
        return self._limits[kind]

    async def take(self, request: Request, kind: str) -> None:
        """Count the request. Raises Refused `limit.exceeded`, StoreUnavailable."""
        limit = self._limits[kind]
        if not limit.count:
            return
        self.precheck(request, kind)
        self.settle(request, kind, await self._store.take(kind, request.client, limit))

    async def charge(self, request: Request, kind: Kind, size: int) -> None:
        """Charge the client for what a request with a body of `size` bytes has the node keep (`node.share.cost`).

        Raises Refused `memory.low`, `node.full`, `quota.bytes`, StoreUnavailable.
        """
        self._capacity.admit(kind)
        await self.usage.add(request.client, kind, size)

    async def hold(self, request: Request, kind: Literal["session", "board", "task"], seconds: float = DAY) -> str:
        """Count the request, and what it makes for as long as it counts; a name to `let_go` by, empty for nothing.

        Raises Refused `memory.low`, `node.full`, `limit.exceeded`, `quota.<kind>`, StoreUnavailable.
        """
        self._capacity.admit("thread" if kind == "board" else kind)
        limit, most = self._limits[kind], getattr(self._quotas, kind)
        if not limit.count:  # who takes the limit away wants no other
            return ""
        self.precheck(request, kind)
        held = await self._store.hold(
            kind, request.client, limit, most, round(seconds * 1000), counted=kind == "session"
        )
        if held.wait is not None:
            raise Refused(f"quota.{kind}", retry_after=held.wait, most=most)
        self.settle(request, kind, held.taken)
        return held.name

    @asynccontextmanager
    async def holding(
        self, request: Request, kind: Literal["session", "board", "task"], seconds: float = DAY
    ) -> AsyncGenerator[str]:
        """`hold` around the making of the thing; given back if it is not made. The request stays counted. A block that
        ends in StoreUnavailable may have made it, and gives nothing back.

        A block that makes nothing new and refuses nothing, as for a replay, gives it back with `let_go`.
        """
        name = await self.hold(request, kind, seconds)
        try:
            yield name
        except StoreUnavailable:
            raise
        except Exception:
            await self.let_go(request.client, kind, name)
            raise

    async def let_go(self, client: str, kind: str, name: str) -> None:
        """Give back what was held and is no more. If the store cannot be told, it counts until its time is over."""
        if name:
            with suppress(StoreUnavailable):
                await self._store.let_go(kind, client, name)

    def precheck(self, request: Request, kind: str, scope: str = "") -> None:
        """Refuse a client that is known to be over the limit. Raises Refused `limit.exceeded`.

        `scope` narrows the count to one entity, such as a session.
        """
        if not self._refused_until:
            return
        who = (kind + scope, request.client)
        until = self._refused_until.get(who)
        if until is None:
            return
        wait = until - time.monotonic()
        if wait > 0:
            self._note(request, kind, 0, wait)
            raise self._exceeded(kind, wait)
        del self._refused_until[who]

    def settle(self, request: Request, kind: str, taken: Taken, scope: str = "") -> None:
        """Write the headers; raise Refused `limit.exceeded` if the store said so."""
        if not self._limits[kind].count:
            return
        self._note(request, kind, taken.remaining, taken.reset)
        if taken.allowed:
            counters.TAKEN[kind] += 1
            return
        if len(self._refused_until) >= _MEMORY:
            self._refused_until.clear()
        self._refused_until[(kind + scope, request.client)] = time.monotonic() + taken.reset
        raise self._exceeded(kind, taken.reset)

    def _note(self, request: Request, kind: str, remaining: int, reset: float) -> None:
        request.notes.append((b"ratelimit-policy", self._policies[kind]))
        request.notes.append((b"ratelimit", b'"%s";r=%d;t=%d' % (kind.encode(), remaining, math.ceil(reset))))

    def _exceeded(self, kind: str, wait: float) -> Refused:
        counters.OVER[kind] += 1
        limit = self._limits[kind]
        return Refused("limit.exceeded", retry_after=wait, count=limit.count, seconds=limit.seconds)


def _policy(kind: str, limit: Limit) -> bytes:
    return b'"%s";q=%d;w=%d' % (kind.encode(), limit.count, limit.seconds)
