"""A client's limits and quotas in Redis: requests in a window of time, things at a time, bytes a day.

A limit is the exact log of the last accepted requests (DESIGN 6).
"""

from collections.abc import Sequence
from secrets import token_hex
from typing import NamedTuple, Protocol, cast

from node.config import Limit
from node.share.site import SITE_SHARE, site_of
from node.store import Store, ids, keys
from node.store.steps import Key, Step, step

DAY_MS = 86_400_000


@step
def limit_take(*, rate: Key, count: int, window: int) -> None:
    """A place in a client's limit."""


@step
def quota_take(
    *,
    rate: Key,
    own: Key,
    site: Key,
    all: Key,  # noqa: A002 - the script's word
    count: int,
    window: int,
    most: int,
    site_most: int,
    life: int,
    name: str,
) -> None:
    """A place in a client's limit, and one among what it and its site may hold."""


@step
def bytes_take(*, mine: Key, site: Key, size: int, owed: int, most: int, site_most: int, window: int) -> None:
    """Bytes of a client and of its site."""


class Taken(NamedTuple):
    """How a client stands after a request: `reset` seconds until a place is free again."""

    allowed: bool
    remaining: int
    reset: float

    @classmethod
    def of(cls, allowed: object, remaining: object, reset_ms: object) -> "Taken":
        """From the three integers with which a script ends its answer."""
        return cls(bool(allowed), cast("int", remaining), cast("int", reset_ms) / 1000)


class Rate(Protocol):
    """The limit in which a script counts a request, and who is told how that ended."""

    @property
    def client(self) -> str: ...

    @property
    def limit(self) -> Limit: ...

    def settle(self, taken: Taken) -> None:
        """Raises Refused `limit.exceeded`."""
        ...


class Quota(NamedTuple):
    """A place among what a client may hold of a kind; it ends by itself, or is given back."""

    kind: str
    client: str
    name: str


class Use(NamedTuple):
    """Bytes of one client: `size` wants to be kept and may be refused, `owed` is kept already."""

    client: str
    size: int
    owed: int


def window(limit: Limit) -> tuple[str, str]:
    """Old form."""
    return str(limit.count), f"{limit.seconds}000"


class LimitStore:
    """Counts requests that write nothing else in the client's partition."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def take(self, kind: str, client: str, limit: Limit, entity_id: str = "") -> Taken:
        """Take a place in a limit, that of one entity if its id is given. Raises StoreUnavailable."""
        partition = ids.partition_of_id(entity_id) if entity_id else ids.home_of(client)
        rate = keys.rate(partition, f"{kind}:{entity_id}" if entity_id else kind, client)
        reply = await self._store.run(limit_take(rate=rate, count=limit.count, window=limit.milliseconds))
        return Taken.of(*cast("list[int]", reply))

    async def take_quota(
        self, kind: str, client: str, limit: Limit, most: int, life_ms: int, *, counted: bool
    ) -> tuple[Quota, Taken, float | None]:
        """Take a place in a limit, and one among `most` things that last `life_ms`. Raises StoreUnavailable.

        The last value: none of the latter is free, and the seconds until one is. `counted`: the total of all clients
        is wanted too.
        """
        partition = ids.home_of(client)
        own, site, everybody = _places(partition, kind, client)
        quota = Quota(kind, client, token_hex(4))
        taking = quota_take(
            rate=keys.rate(partition, kind, client),
            own=own,
            site=site,
            all=everybody if counted else own,
            count=limit.count,
            window=limit.milliseconds,
            most=most,
            site_most=most * SITE_SHARE,
            life=life_ms,
            name=quota.name,
        )
        _, allowed, remaining, reset, *wait = cast("list[int]", await self._store.run(taking))
        return quota, Taken.of(allowed, remaining, reset), wait[0] / 1000 if wait else None

    async def give_back(self, quota: Quota) -> None:
        """Free a place before its time. Raises StoreUnavailable."""
        places = _places(ids.home_of(quota.client), quota.kind, quota.client)
        await self._store.commands([("ZREM", place, quota.name) for place in places])

    async def take_bytes(self, uses: Sequence[Use], most: int) -> list[float | None]:
        """Count bytes of some clients, each of which may have `most` in 24 hours. Raises StoreUnavailable.

        For each the seconds until it may have some again if it may not now: its `size` was not counted then, or
        nothing is left; else None.
        """
        replies = await self._store.run_all(_bytes_of(use, most) for use in uses)
        return [reply[1] / 1000 if len(reply) > 1 else None for reply in cast("list[list[int]]", replies)]


def _bytes_of(use: Use, most: int) -> Step:
    partition = ids.home_of(use.client)
    mine, site = (keys.byte_count(partition, name) for name in (use.client, site_of(use.client)))
    return bytes_take(
        mine=mine, site=site, size=use.size, owed=use.owed, most=most, site_most=most * SITE_SHARE, window=DAY_MS
    )


def _places(partition: int, kind: str, client: str) -> tuple[Key, Key, Key]:
    """Where what a client holds is counted: for itself, for its site, and for the node."""
    of_client, of_site = (keys.places(partition, kind, name) for name in (client, site_of(client)))
    return of_client, of_site, keys.places_of_all(partition, kind)
