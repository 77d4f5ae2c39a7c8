"""Offers as the search reads them (`node.search.corpus.Source`): a contract is one post, open while it is offered."""

from collections.abc import AsyncIterator, Sequence
from typing import Literal, cast

from node.store import RedisReply, Store, StoreUnavailable, keys
from node.store.bulk import bulk, bulk_reachable, scan_sorted_set
from node.tasks.model import STATUSES

CONTRACTS_AT_ONCE = 500
"""How many contracts of a list are read together."""

_CHANGES = "offered", "claimed", "released", "completed", "canceled", "failed", "expired", "forgotten", "imported"
INDEXED_AFTER = tuple(f"task.{what}" for what in _CHANGES)
"""Events after which an offer comes or goes. What happens between claim and completion changes nothing about it."""


class OfferReader:
    """Reads the texts of contracts that are on offer."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def statuses(self, task_ids: Sequence[str]) -> list[str]:
        """`open`, or the status of a contract that is not offered; empty for none. Raises StoreUnavailable."""
        return [_status(*row) for row in await self._rows(task_ids, "kind", "status")]

    async def posts(self, places: Sequence[tuple[str, int]]) -> list[tuple[str, str, str]]:
        """Status, title and description of each contract; empty where there is none.

        The status is `unreachable` where the server of a contract cannot be read and others can. Raises
        StoreUnavailable.
        """
        names = ("kind", "status", "title", "description")
        found = await bulk_reachable(self._store, [("HMGET", keys.task(task_id), *names) for task_id, _ in places])
        return [_post(reply, seq) for (_, seq), reply in zip(places, found, strict=True)]

    async def newest_replies(self, task_id: str, most: int) -> list[tuple[int, str]]:
        """Always empty: a contract is one post."""
        return []

    async def newest_open(self, most: int | None = None) -> list[str]:
        """Ids of offered contracts, newest first; all of them unless `most` is given. Raises StoreUnavailable."""
        names = await self._store.command("ZREVRANGE", keys.tasks_with("offered"), 0, most - 1 if most else -1)
        return [name.decode() for name in cast("Sequence[bytes]", names)]

    async def count_open(self) -> int:
        """How many contracts are offered. Raises StoreUnavailable."""
        return cast("int", await self._store.command("ZCARD", keys.tasks_with("offered")))

    async def scan(self, status: Literal["open", "closed"]) -> AsyncIterator[list[str]]:
        """Ids of all contracts on offer, or of all others, some at a time (ZSCAN). Raises StoreUnavailable."""
        for name in STATUSES:
            if (name == "offered") != (status == "open"):
                continue
            async for found in scan_sorted_set(self._store, keys.tasks_with(name), CONTRACTS_AT_ONCE):
                yield [each for each, _ in found]

    async def _rows(self, task_ids: Sequence[str], *names: str) -> list[list[bytes | None]]:
        found = await bulk(self._store, [("HMGET", keys.task(each), *names) for each in task_ids])
        return cast("list[list[bytes | None]]", found)


def _post(reply: RedisReply | StoreUnavailable, seq: int) -> tuple[str, str, str]:
    if isinstance(reply, StoreUnavailable):
        return "unreachable", "", ""
    kind, status, title, text = cast("list[bytes | None]", reply)
    return _status(kind, status), "" if seq else (title or b"").decode(), "" if seq else (text or b"").decode()


def _status(kind: bytes | None, status: bytes | None) -> str:
    if kind != b"contract" or not status:
        return ""
    return "open" if status == b"offered" else status.decode()
