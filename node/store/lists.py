"""Lists of entities: sorted sets of ids, in which the newest entities have the highest scores."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar, cast

from node.store.decoding import names_of, scores_of
from node.store.keys import Key
from node.store.scripts import Arg
from node.store.store import Store

T = TypeVar("T")

ENTITIES_AT_ONCE = 500
"""Approximate number of entities of a list that are read at a time."""

UNREACHABLE = "unreachable"
"""In the search, the status of an entity that cannot be read."""

Listing: TypeAlias = Mapping[str, Sequence[bytes | None]]
"""Values of the fields that determine the lists of an entity, by the entity's id."""


async def page_of(store: Store, listed: Key, limit: int, offset: int) -> tuple[list[str], int]:
    """Return up to `limit` ids, newest first, after skipping `offset`; and the length of the list. Raises
    StoreUnavailable.
    """
    found, total = await store.run_all([("ZREVRANGE", listed, offset, offset + limit - 1), ("ZCARD", listed)])
    return names_of(found), cast("int", total)


async def total_of(store: Store, commands: Iterable[Sequence[Arg]]) -> int:
    """Return the sum of the integer replies to commands, such as the lengths of lists. Raises StoreUnavailable."""
    return sum(cast("list[int]", await store.run_all(commands)))


async def project(
    store: Store,
    names: Iterable[str],
    key: Callable[[str], Key],
    fields: Sequence[str],
    put: Callable[[Listing], Awaitable[None]],
    *,
    deciding: int,
) -> None:
    """Read the `fields` of each entity, and have `put` move it into the lists that they determine, and out of others.

    Only the first `deciding` fields determine the lists (`put_until_current`). Raises StoreUnavailable.
    """

    async def read(names: Sequence[str]) -> Listing:
        rows = await store.run_all([("HMGET", key(each), *fields) for each in names])
        return dict(zip(names, cast("list[list[bytes | None]]", rows), strict=True))

    await put_until_current(await read(list(names)), put, read, lambda row: row[:deciding])


async def put_until_current(
    rows: Mapping[str, T],
    put: Callable[[Mapping[str, T]], Awaitable[None]],
    read: Callable[[Sequence[str]], Awaitable[Mapping[str, T]]],
    deciding: Callable[[T], object],
) -> None:
    """Have `put` move entities into the lists that their `rows` determine, and repeat for entities changed meanwhile.

    Several processes may do this at the same time. After its `put`, each reads the entities again and compares their
    `deciding` part, so that none leaves behind an outdated entry that another process had already corrected.
    """
    while rows:
        await put(rows)
        by_now = await read(list(rows))
        rows = {name: row for name, row in by_now.items() if deciding(row) != deciding(rows[name])}


async def scan_sorted_set(store: Store, key: Key, at_once: int) -> AsyncIterator[list[tuple[str, float]]]:
    """Yield all members of a sorted set with their scores, about `at_once` at a time (ZSCAN).

    A member whose score changes meanwhile may come twice. Raises StoreUnavailable.
    """
    cursor: bytes | None = None
    while cursor != b"0":
        reply = await store.command("ZSCAN", key, cursor or 0, "COUNT", at_once)
        cursor, flat = cast("tuple[bytes, list[bytes]]", reply)
        yield scores_of(flat)


class ListedEntities:
    """The part of a `CorpusSource` (`node.search.corpus`) that reads lists. `opened`: the list of open entities.

    Every method raises StoreUnavailable.
    """

    def __init__(self, store: Store, opened: Key) -> None:
        self._store = store
        self._opened = opened

    async def newest_open(self, most: int | None = None) -> list[str]:
        """See CorpusSource."""
        return names_of(await self._store.command("ZREVRANGE", self._opened, 0, most - 1 if most else -1))

    async def count_open(self) -> int:
        """See CorpusSource."""
        return cast("int", await self._store.command("ZCARD", self._opened))

    async def scan_open(self) -> AsyncIterator[list[str]]:
        """See CorpusSource."""
        async for found in scan_sorted_set(self._store, self._opened, ENTITIES_AT_ONCE):
            yield [name for name, _ in found]
