"""Limits per client address, and the headers that tell clients where they stand.

`RateLimit-Policy` and `RateLimit` follow draft-ietf-httpapi-ratelimit-headers-10. A process that
has been told "over the limit" refuses that client by itself until the time it was told, so that a
flood does not reach the store.
"""

import math
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Literal, cast

import msgspec

from node.common import counters
from node.common.refusal import Invalid, Refused
from node.config import Limit, Limits, Settings
from node.share.capacity import Capacity
from node.share.cost import Kind
from node.store import ids
from node.store.errors import StoreUnavailable
from node.store.limits import DAY_MS, LimitStore, Quota, Taken
from node.web.http import Request
from node.web.idempotency import REPLAYED
from node.web.usage import Usage

_MEMORY = 10_000
"""Clients remembered as over the limit, per process; beyond it the store is asked again."""


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

    def permit(self, request: Request, kind: str, scope: str = "", *, refusals: bool = True) -> "Permit":
        """What a request of a class may do. `scope` narrows the limit to one entity, such as a session.

        `refusals`: a request that is refused for what it says counts, too.
        """
        return Permit(self, request, kind, scope, counted=not refusals)

    async def take(self, request: Request, kind: str, scope: str = "") -> None:
        """Count the request. Raises Refused `limit.exceeded`, StoreUnavailable."""
        limit = self._limits[kind]
        if not limit.count or (scope and not ids.is_id(scope)):  # nothing has that id
            return
        self.precheck(request, kind, scope)
        self.settle(request, kind, await self._store.take(kind, request.client, limit, scope), scope)

    async def charge(self, request: Request, kind: Kind, size: int) -> None:
        """Charge the client for what a request with a body of `size` bytes has the node keep (`node.share.cost`).

        Raises Refused `memory.low`, `node.full`, `quota.bytes`, StoreUnavailable.
        """
        self._capacity.admit(kind)
        await self.usage.add(request.client, kind, size)

    async def hold(self, request: Request, kind: str, milliseconds: int) -> str:
        """Count the request, and what it makes for as long as that lasts; a name to give it back by, empty for nothing.

        Raises Refused `memory.low`, `node.full`, `limit.exceeded`, `quota.<kind>`, StoreUnavailable.
        """
        self._capacity.admit(cast("Kind", "thread" if kind == "board" else kind))
        limit, most = self._limits[kind], getattr(self._quotas, kind)
        if not limit.count:  # who takes the limit away wants no other
            return ""
        self.precheck(request, kind)
        quota, taken, wait = await self._store.take_quota(
            kind, request.client, limit, most, milliseconds, counted=kind == "session"
        )
        if wait is not None:
            raise Refused(f"quota.{kind}", retry_after=wait, most=most)
        self.settle(request, kind, taken)
        return quota.name

    @asynccontextmanager
    async def holding(
        self, request: Request, kind: Literal["session", "board", "task"], seconds: float = 86400
    ) -> AsyncGenerator[str]:
        """Old form."""
        name = await self.hold(request, kind, round(seconds * 1000))
        try:
            yield name
        except StoreUnavailable:
            raise
        except Exception:
            await self.let_go(request.client, kind, name)
            raise

    async def let_go(self, client: str, kind: str, name: str) -> None:
        """Old form."""
        with suppress(StoreUnavailable):
            await self.give_back(Quota(kind, client, name))

    async def give_back(self, quota: Quota) -> None:
        """Give back what is no more. Raises StoreUnavailable: then it counts until its time is over."""
        if quota.name:
            await self._store.give_back(quota)

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


class Permit:
    """What one request may do: its place in a limit, what it has the node keep, and what it makes while that lasts.

        async with limiter.permit(request, "board") as permit:
            ...read and judge the request...
            await permit.hold()
            await permit.charge("thread", size)
            ...make the thread...

    A request is counted once: by `count` or `hold`, or in the script that writes what it asks for (`limit`, `settle`).
    One that is refused before is counted when the block ends, or parser and gate would be free to probe (SPEC 7).
    """

    __slots__ = ("_counted", "_kind", "_limiter", "_place", "_request", "_scope", "client", "limit")

    def __init__(self, limiter: "Limiter", request: Request, kind: str, scope: str, *, counted: bool) -> None:
        self.client = request.client
        self.limit: Limit = limiter.of(kind)
        """The limit, for a script that counts the request in it."""
        self._limiter = limiter
        self._request = request
        self._kind = kind
        self._scope = scope
        self._counted = counted
        self._place = ""

    async def __aenter__(self) -> "Permit":
        self._limiter.precheck(self._request, self._kind, self._scope)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, StoreUnavailable):  # what cannot be known may have been made
            return
        await self.give_back()
        if not self._counted and isinstance(error, Refused | Invalid):
            await self._limiter.take(self._request, self._kind, self._scope)

    async def count(self) -> None:
        """Take a place in the limit. Raises Refused `limit.exceeded`, StoreUnavailable."""
        self._counted = True
        await self._limiter.take(self._request, self._kind, self._scope)

    def settle(self, taken: Taken) -> None:
        """Say how a script counted the request in the limit. Raises Refused `limit.exceeded`."""
        self._counted = True
        self._limiter.settle(self._request, self._kind, taken, self._scope)

    async def hold(self, milliseconds: int = DAY_MS) -> str:
        """Count the request, and what it makes among what its client may have of it, for so long.

        The place among those is given back if the block fails; its name, for a record that gives it back later. Raises
        Refused `memory.low`, `node.full`, `limit.exceeded`, `quota.<kind>`, StoreUnavailable.
        """
        self._counted = True
        self._place = await self._limiter.hold(self._request, self._kind, milliseconds)
        return self._place

    async def charge(self, kind: Kind, size: int) -> None:
        """Charge the client for what a request with a body of `size` bytes has the node keep (`node.share.cost`).

        Raises Refused `memory.low`, `node.full`, `quota.bytes`, StoreUnavailable.
        """
        try:
            await self._limiter.charge(self._request, kind, size)
        except Refused:
            self._counted = True  # not for what it says
            raise

    async def replay(self) -> None:
        """Say in the answer that it is an earlier one, given again: nothing was made."""
        self._request.notes.append(REPLAYED)
        await self.give_back()

    async def give_back(self) -> None:
        """Give back the place of what was not made. If Redis cannot be told, it counts until its time is over."""
        if self._place:
            name, self._place = self._place, ""
            with suppress(StoreUnavailable):
                await self._limiter.give_back(Quota(self._kind, self.client, name))
