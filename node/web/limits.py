"""Rate limits per client address, and the answer headers that tell clients how much is left.

`Limiter` holds the limits of a process; `Permit` applies them to one request. Once Redis has told a process that a
client is over a limit, the process refuses this client by itself until a place is free again, so a flood does not reach
Redis. `RateLimit-Policy` and `RateLimit` follow draft-ietf-httpapi-ratelimit-headers-10.
"""

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import cast

from node.common import counters
from node.common.refusal import Invalid, Refused
from node.config import Limit, Limits, Settings
from node.share.capacity import Capacity
from node.share.cost import Kind
from node.store import ids
from node.store.errors import OutcomeUnknown, StoreUnavailable
from node.store.idempotency import IdempotencyKey
from node.store.limits import DAY_MS, LimitState, LimitStore, Quota
from node.web.http import Header, Request
from node.web.idempotency import mark_replayed
from node.web.refused_until import RefusedUntil
from node.web.usage import Usage
from node.web.work import WorkLimit

COUNTED_FOR_THE_NODE = ("session", "inbox", "stream")
"""Kinds of things that exist until they are ended or expire. Their places are also counted over all clients, so that
the node knows how many of them exist."""

WITHOUT_EFFECT = (Refused, Invalid, StoreUnavailable)
"""Failures after which the node keeps nothing of a request. OutcomeUnknown, a subclass of StoreUnavailable, is treated
apart: the write may have happened, so place and bytes stay taken."""

OF_ANOTHER_LIMIT = ("limit.exceeded", "limit.work")
"""Refusals by a limit other than the one that would count the request. A request refused by one of these counts in
neither limit."""


def quotas_of(settings: Settings) -> dict[str, int]:
    """Return how many things of each kind a client may have at a time (`board`, `task`: in 24 hours). 0: any number."""
    return {
        "session": settings.client_sessions,
        "board": settings.client_threads,
        "task": settings.client_tasks,
        "inbox": settings.client_inboxes,
        "stream": settings.client_streams,
    }


class Limiter:
    """All limits of one process."""

    def __init__(self, limits: Limits, store: LimitStore, quotas: Mapping[str, int], capacity: Capacity) -> None:
        self._quotas = quotas
        self._capacity = capacity
        self.usage = Usage(store, capacity)
        self._states = {name: b'"%b";r=%%d;t=%%d' % name.encode() for name in Limits.__struct_fields__}
        """Templates of the RateLimit header's value, by class."""
        self.store = store
        self._refused_until = RefusedUntil[tuple[str, str]]()
        """The clients that are refused now, by limit (its class and scope) and client."""
        self.change(limits)

    def change(self, limits: Limits) -> None:
        """Apply these limits from now on."""
        self.limits: dict[str, Limit] = {name: getattr(limits, name) for name in Limits.__struct_fields__}
        """Limits by class."""
        self._policies = {name: _policy(name, limit) for name, limit in self.limits.items()}
        self._refused_until.clear()

    def permit(
        self, request: Request, kind: str, scope: str = "", *, refusals: bool = True, work: WorkLimit | None = None
    ) -> "Permit":
        """Return the Permit of a request within the limit `kind`. `scope`: the id of an entity that has this limit for
        itself.

        `refusals`: whether a request that is refused for its content also counts. `work`: a limit in which the request
        is also charged for its cost.
        """
        return Permit(self, request, kind, scope, settled=not refusals, work=work)

    async def count(self, request: Request, kind: str, scope: str = "") -> LimitState | None:
        """Count the request. Return None if it does not count. Raises Refused `limit.exceeded`, StoreUnavailable."""
        limit = self.limits[kind]
        if not limit.count or (scope and not ids.is_id(scope)):
            return None
        self.precheck(request, kind, scope)
        if scope:
            taken = await self.store.take_of(kind, scope, request.client, limit)
        else:
            taken = await self.store.take(kind, request.client, limit)
        if taken:
            self.settle(request, kind, taken, scope)
        return taken

    async def refund(self, request: Request, kind: str, taken: LimitState) -> None:
        """Stop counting a request. Raises StoreUnavailable: then the request still counts."""
        await self.store.refund(kind, request.client, taken)
        own = b'"%b";' % kind.encode()
        others = [each for each in request.answer_headers if not each[1].startswith(own)]
        request.answer_headers[:] = [*others, *self._headers(kind, taken.remaining + 1, taken.reset)]

    @asynccontextmanager
    async def charged(self, request: Request, kind: Kind, size: int) -> AsyncGenerator[Callable[[], None]]:
        """Charge the client as `charge` does. Give the bytes back if the block calls the yielded function, or fails
        without effect."""
        used = await self.charge(request, kind, size)
        give_back = partial(self.usage.give_back, request.client, used)
        try:
            yield give_back
        except WITHOUT_EFFECT as error:
            if not isinstance(error, OutcomeUnknown):
                give_back()
            raise

    def charge(self, request: Request, kind: Kind, size: int) -> Awaitable[int]:
        """Charge the client for the bytes that the node keeps for a body of `size` bytes (`node.share.cost`).

        Returns the number of bytes charged. Raises Refused `memory.low`, `disk.low`, `node.full`, `quota.bytes`,
        StoreUnavailable.
        """
        self._capacity.admit(kind)
        return self.usage.add(request.client, kind, size)

    async def hold(
        self, request: Request, kind: str, milliseconds: int, label: str = "", taken: float = 0.0
    ) -> Quota | None:
        """Count the request, and for `milliseconds` the thing that it creates. Return None if the limit is off.

        `taken`: as in `Capacity.quota`. Raises Refused `memory.low`, `disk.low`, `node.full`, `limit.exceeded`,
        `quota.<kind>`, StoreUnavailable.
        """
        self._capacity.admit(_kept_as(kind))
        limit = self.limits[kind]
        if not limit.count:
            return None
        self.precheck(request, kind)
        most = self.most(kind, taken)
        quota, counted = await self.store.take_quota(
            kind, request.client, limit, most, milliseconds, for_node=kind in COUNTED_FOR_THE_NODE, label=label
        )
        self.settle(request, kind, counted)
        return quota

    def most(self, kind: str, taken: float = 0.0) -> int:
        """Return how many things of a kind a client may have now; 0 for any number. `taken`: as in `Capacity.quota`."""
        if not self.limits[kind].count:  # a limit of 0 also switches off the quota
            return 0
        return self._capacity.quota(_kept_as(kind), self._quotas[kind], taken)

    async def release(self, quota: Quota) -> None:
        """Stop counting a thing that has ended early. Raises StoreUnavailable: then it counts until its time ends."""
        await self.store.release(quota)

    def precheck(self, request: Request, kind: str, scope: str = "") -> None:
        """Refuse a client that this process knows to be over the limit. Raises Refused `limit.exceeded`."""
        if not self._refused_until:
            return
        if wait := self._refused_until.wait((kind + scope, request.client)):
            request.answer_headers += self._headers(kind, 0, wait)
            raise self._exceeded(kind, wait)

    def settle(self, request: Request, kind: str, taken: LimitState, scope: str = "") -> None:
        """Apply the result of counting a request in Redis: add the answer headers, and raise Refused `limit.exceeded`
        if the client is over the limit.

        Raises Refused `store.busy` if the client was over a limit that has been switched off in the meantime.
        """
        if not self.limits[kind].count:
            if not taken.allowed:
                raise Refused("store.busy", retry_after=1)
            return
        request.answer_headers += self._headers(kind, taken.remaining, taken.reset)
        if taken.allowed:
            counters.LIMIT_TAKEN[kind] += 1
            return
        self._refused_until.remember((kind + scope, request.client), taken.reset)
        raise self._exceeded(kind, taken.reset)

    def _headers(self, kind: str, remaining: int, reset: float) -> tuple[Header, Header]:
        return self._policies[kind], (b"ratelimit", self._states[kind] % (remaining, math.ceil(reset)))

    def _exceeded(self, kind: str, wait: float) -> Refused:
        counters.LIMIT_REFUSED[kind] += 1
        limit = self.limits[kind]
        return Refused("limit.exceeded", retry_after=wait, count=limit.count, seconds=limit.seconds)


class Permit:
    """What one request may do: within a rate limit, its client's bytes of the day, and its client's quota of things.

        async with limiter.permit(request, "session") as permit:
            ...read and judge the request...
            place = await permit.hold(life)
            await permit.charge("session", size)
            ...open the session...

    A request is counted once: by `count`, by `hold`, or by a script that is given the permit as its RateLimit. If the
    block raises Refused or Invalid before that, the request is counted at that point, so that nobody can try out the
    parser or the English gate for free (SPEC 7).

    A refusal for lack of room (by `hold`, by `charge`, or as `store.busy`) is not counted, unless a script refuses: by
    then the request has been judged. A refusal within the limit of an entity that does not exist is not counted either.
    A request that repeats an earlier one needs no room. In the end, the bytes charged for a refused or repeated request
    are given back, except those that the permit was told to `keep`.
    """

    __slots__ = (
        "_charged",
        "_is_settled",
        "_kind",
        "_limiter",
        "_quota",
        "_repeats",
        "_request",
        "_scope",
        "_taken",
        "_work",
        "client",
        "limit",
    )

    def __init__(
        self, limiter: Limiter, request: Request, kind: str, scope: str, *, settled: bool, work: WorkLimit | None
    ) -> None:
        self.client = request.client
        self.limit: Limit = limiter.limits[kind]
        """The limit, for a script that counts the request."""
        self._limiter = limiter
        self._request = request
        self._kind = kind
        self._scope = scope
        self._is_settled = settled
        """Whether the request has been counted, or must not be counted."""
        self._quota: Quota | None = None
        self._repeats: IdempotencyKey | None = None
        self._taken: LimitState | None = None
        self._charged = 0
        """Bytes that were charged for the request and can be given back."""
        self._work = work

    @property
    def most(self) -> int:
        """How many things of the kind the client may have now, for a script that counts them; 0 for any number."""
        return self._limiter.most(self._kind)

    async def __aenter__(self) -> "Permit":
        """Raises Refused `limit.exceeded` if this process knows the client to be over the limit."""
        self._limiter.precheck(self._request, self._kind, self._scope)
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, OutcomeUnknown):
            return
        if isinstance(error, WITHOUT_EFFECT):
            self._give_back()
        if isinstance(error, Refused) and error.code in OF_ANOTHER_LIMIT:
            await self.refund()
        await self.release()
        is_judged = isinstance(error, Invalid) or (isinstance(error, Refused) and error.code != "store.busy")
        if is_judged and not self._is_settled:
            await self._limiter.count(self._request, self._kind, self._scope)

    async def count(self) -> None:
        """Count the request. Raises Refused `limit.work`, `limit.exceeded`, StoreUnavailable."""
        self._is_settled = True
        if self._work:
            await self._work.admit(self._request)
        self._taken = await self._limiter.count(self._request, self._kind, self._scope)

    async def refund(self) -> None:
        """Stop counting a request that `count` has counted. If Redis cannot be reached, the request still counts."""
        taken, self._taken = self._taken, None
        if taken:
            with suppress(StoreUnavailable):
                await self._limiter.refund(self._request, self._kind, taken)

    def settle(self, taken: LimitState) -> None:
        """Apply the result of a script that counted the request. Raises Refused `limit.exceeded`."""
        self._is_settled = True
        self._limiter.settle(self._request, self._kind, taken, self._scope)

    async def hold(
        self, milliseconds: int = DAY_MS, label: str = "", repeats: IdempotencyKey | None = None, taken: float = 0.0
    ) -> str:
        """Count the request, and for `milliseconds` count the thing that it creates in its client's quota.

        `label`: what the operator is told about the thing. `repeats`: the key under which the thing is created; if an
        earlier request with this key has created it and the quota has no room, only the request is counted. `taken`: as
        in `Capacity.quota`. Returns the name of the place in the quota, by which it can be released later; empty if
        there is no limit. The permit releases the place if the block fails. Raises Refused `memory.low`, `disk.low`,
        `node.full`, `limit.exceeded`, `quota.<kind>`, StoreUnavailable.
        """
        self._is_settled = True
        self._repeats = repeats
        try:
            self._quota = await self._limiter.hold(self._request, self._kind, milliseconds, label, taken)
        except Refused as refused:
            if not await self._needs_no_room(refused):
                raise
            await self._limiter.count(self._request, self._kind)
        return self._quota.name if self._quota else ""

    async def charge(self, kind: Kind, size: int, repeats: IdempotencyKey | None = None) -> None:
        """Charge the client for the bytes that the node keeps for a body of `size` bytes (`node.share.cost`).

        `repeats`: as in `hold`, for a request that did not call `hold`. Raises Refused `memory.low`, `disk.low`,
        `node.full`, `quota.bytes`, StoreUnavailable.
        """
        self._repeats = self._repeats or repeats
        try:
            self._charged = await self._limiter.charge(self._request, kind, size)
        except OutcomeUnknown:  # the charge is in doubt, but nothing that needs the place will be created
            await self.release()
            raise
        except Refused as refused:
            self._is_settled = True
            if not await self._needs_no_room(refused):
                raise

    def spend(self, amount: int) -> None:
        """Charge the client for work that is done. The answer does not wait for Redis."""
        if self._work:
            self._work.charge(self.client, amount)

    async def replay(self) -> None:
        """Mark the answer as a replay of an earlier one."""
        mark_replayed(self._request)
        await self.keep_nothing()

    def keep(self, size: int) -> None:
        """Keep `size` of the charged bytes charged, whatever becomes of the request."""
        self._charged = max(0, self._charged - size)

    async def release(self) -> None:
        """Release the place that `hold` took. If Redis cannot be reached, it stays taken until its time is over."""
        quota, self._quota = self._quota, None
        if quota:
            with suppress(StoreUnavailable):
                await self._limiter.release(quota)

    async def keep_nothing(self) -> None:
        """Give back place and bytes: nothing was created."""
        self._give_back()
        await self.release()

    async def _needs_no_room(self, refused: Refused) -> bool:
        """Return whether the request was refused by its quota, but repeats one that has already created the thing."""
        if not self._repeats or not refused.code.startswith("quota."):
            return False
        return await self._limiter.store.is_known(self._repeats)

    def _give_back(self) -> None:
        used, self._charged = self._charged, 0
        self._limiter.usage.give_back(self.client, used)


PermitOf = Callable[[Request], Permit]
"""Makes permits of one kind."""


def _kept_as(kind: str) -> Kind:
    """Return the kind under which requests of a limit are charged (`node.share.cost`)."""
    return cast("Kind", "thread" if kind == "board" else kind)


def _policy(kind: str, limit: Limit) -> Header:
    return (b"ratelimit-policy", b'"%b";q=%d;w=%d' % (kind.encode(), limit.count, limit.seconds))
