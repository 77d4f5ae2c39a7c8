"""Limits per client address, and the headers that tell clients where they stand.

`RateLimit-Policy` and `RateLimit` follow draft-ietf-httpapi-ratelimit-headers-10. A process that
has been told "over the limit" refuses that client by itself until the time it was told, so that a
flood does not reach the store.
"""

import math
import time

from node.config import Limit, Limits
from node.refusal import Refused
from node.store.limits import LimitStore, Taken
from node.web.http import Request

_MEMORY = 10_000
"""Clients remembered as over the limit, per process; beyond it the store is asked again."""


class Limiter:
    """All limits of one process."""

    def __init__(self, limits: Limits, store: LimitStore) -> None:
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
            return
        if len(self._refused_until) >= _MEMORY:
            self._refused_until.clear()
        self._refused_until[(kind + scope, request.client)] = time.monotonic() + taken.reset
        raise self._exceeded(kind, taken.reset)

    def _note(self, request: Request, kind: str, remaining: int, reset: float) -> None:
        request.notes.append((b"ratelimit-policy", self._policies[kind]))
        request.notes.append((b"ratelimit", b'"%s";r=%d;t=%d' % (kind.encode(), remaining, math.ceil(reset))))

    def _exceeded(self, kind: str, wait: float) -> Refused:
        limit = self._limits[kind]
        return Refused("limit.exceeded", retry_after=wait, count=limit.count, seconds=limit.seconds)


def _policy(kind: str, limit: Limit) -> bytes:
    return b'"%s";q=%d;w=%d' % (kind.encode(), limit.count, limit.seconds)
