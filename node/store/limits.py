"""One place in a client's limit: the exact log of its last accepted requests (DESIGN 6)."""

from secrets import token_hex
from typing import cast

import msgspec

from node.config import Limit
from node.store import Store, keys
from node.store.scripts import script

TAKE = script("limit_take")
HOLD = script("hold_take")
BYTES = script("bytes_take")

DAY_MS = 86_400_000


class Taken(msgspec.Struct, frozen=True):
    """How a client stands after a request: `reset` seconds until a place is free again."""

    allowed: bool
    remaining: int
    reset: float

    @classmethod
    def of(cls, allowed: object, remaining: object, reset_ms: object) -> "Taken":
        """From the three integers with which a script ends its answer."""
        return cls(bool(allowed), cast("int", remaining), cast("int", reset_ms) / 1000)


class Held(msgspec.Struct, frozen=True):
    """A place among what a client may hold; `wait`: none, and the seconds until one is free."""

    name: str
    taken: Taken
    wait: float | None


def window(limit: Limit) -> tuple[str, str]:
    """The two arguments by which a script knows a limit: count and window in milliseconds."""
    return str(limit.count), f"{limit.seconds}000"


class LimitStore:
    """Counts requests that write nothing else in the client's partition."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def hold(self, kind: str, client: str, limit: Limit, most: int, life_ms: int, *, counted: bool) -> "Held":
        """Take a place in a limit and one among `most` things that last `life_ms`. Raises StoreUnavailable.

        `counted`: the total of all clients is wanted too.
        """
        partition, name = keys.partition_of(client), token_hex(4)
        held = keys.held(partition, kind, client)
        places = [keys.rate(partition, kind, client), held, keys.held_by_all(partition, kind) if counted else held]
        reply = await self._store.run(HOLD, places, [*window(limit), most, life_ms, name])
        found = cast("list[int]", reply)
        wait = found[4] / 1000 if len(found) > 4 else None
        return Held(name, Taken.of(*found[1:4]), wait)

    async def let_go(self, kind: str, client: str, name: str) -> None:
        """Give back what was held, before its time. Raises StoreUnavailable."""
        partition = keys.partition_of(client)
        places = (keys.held(partition, kind, client), keys.held_by_all(partition, kind))
        await self._store.commands([("ZREM", place, name) for place in places])

    async def take_bytes(self, client: str, size: int, most: int) -> float | None:
        """Count the bytes of a body; if there are too many, the seconds to wait. Raises StoreUnavailable."""
        key = keys.byte_count(keys.partition_of(client), client)
        reply = cast("list[int]", await self._store.run(BYTES, [key], [size, most, DAY_MS]))
        return reply[1] / 1000 if len(reply) > 1 else None

    async def take(self, kind: str, client: str, limit: Limit) -> Taken:
        """Take a place, or learn how long to wait. Raises StoreUnavailable."""
        key = keys.rate(keys.partition_of(client), kind, client)
        allowed, remaining, reset = cast("list[int]", await self._store.run(TAKE, [key], window(limit)))
        return Taken.of(allowed, remaining, reset)
