"""One place in a client's limit: the exact log of its last accepted requests (DESIGN 6)."""

from collections.abc import Sequence
from secrets import token_hex
from typing import cast

import msgspec

from node.config import Limit
from node.share.site import SITE_SHARE, site_of
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


class Use(msgspec.Struct, frozen=True):
    """Bytes of one client: `size` wants to be kept and may be refused, `owed` is kept already."""

    client: str
    size: int
    owed: int


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
        partition, name = keys.home_of(client), token_hex(4)
        held, *others = _held_by(partition, kind, client)
        site, everybody = others
        places = [keys.rate(partition, kind, client), held, site, everybody if counted else held]
        reply = await self._store.run(HOLD, places, [*window(limit), most, most * SITE_SHARE, life_ms, name])
        found = cast("list[int]", reply)
        wait = found[4] / 1000 if len(found) > 4 else None
        return Held(name, Taken.of(*found[1:4]), wait)

    async def let_go(self, kind: str, client: str, name: str) -> None:
        """Give back what was held, before its time. Raises StoreUnavailable."""
        places = _held_by(keys.home_of(client), kind, client)
        await self._store.commands([("ZREM", place, name) for place in places])

    async def take_bytes(self, uses: Sequence["Use"], most: int) -> list[float | None]:
        """Count bytes of some clients, each of which may have `most` in 24 hours. Raises StoreUnavailable.

        For each the seconds until it may have some again if it may not now: its `size` was not counted then, or
        nothing is left; else None.
        """
        calls: list[tuple[list[str], list[int]]] = []
        for use in uses:
            partition = keys.home_of(use.client)
            counts = [keys.byte_count(partition, name) for name in (use.client, site_of(use.client))]
            calls.append((counts, [use.size, use.owed, most, most * SITE_SHARE, DAY_MS]))
        replies = cast("list[list[int]]", await self._store.runs(BYTES, calls))
        return [reply[1] / 1000 if len(reply) > 1 else None for reply in replies]

    async def take(self, kind: str, client: str, limit: Limit) -> Taken:
        """Take a place, or learn how long to wait. Raises StoreUnavailable."""
        key = keys.rate(keys.home_of(client), kind, client)
        allowed, remaining, reset = cast("list[int]", await self._store.run(TAKE, [key], window(limit)))
        return Taken.of(allowed, remaining, reset)


def _held_by(partition: int, kind: str, client: str) -> tuple[str, str, str]:
    """Where a thing is counted that a client holds: for itself, for its site, and for the node."""
    of_client, of_site = (keys.held(partition, kind, name) for name in (client, site_of(client)))
    return of_client, of_site, keys.held_by_all(partition, kind)
