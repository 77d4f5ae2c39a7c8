"""One place in a client's limit: the exact log of its last accepted requests (DESIGN 6)."""

from typing import cast

import msgspec

from node.config import Limit
from node.store import Store, keys
from node.store.scripts import script

TAKE = script("limit_take")


class Taken(msgspec.Struct, frozen=True):
    """How a client stands after a request: `reset` seconds until a place is free again."""

    allowed: bool
    remaining: int
    reset: float

    @classmethod
    def of(cls, allowed: object, remaining: object, reset_ms: object) -> "Taken":
        """From the three integers with which a script ends its answer."""
        return cls(bool(allowed), cast("int", remaining), cast("int", reset_ms) / 1000)


def window(limit: Limit) -> tuple[int, int]:
    """The two arguments by which a script knows a limit: count and window in milliseconds."""
    return limit.count, limit.seconds * 1000


class LimitStore:
    """Counts requests that write nothing else in the client's partition."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def take(self, kind: str, client: str, limit: Limit) -> Taken:
        """Take a place, or learn how long to wait. Raises StoreUnavailable."""
        key = keys.rate(keys.partition_of(client), kind, client)
        allowed, remaining, reset = cast("list[int]", await self._store.run(TAKE, [key], window(limit)))
        return Taken.of(allowed, remaining, reset)
