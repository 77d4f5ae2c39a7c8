"""Offers as the search reads them (`CorpusSource`): a contract is one post, open while it is offered."""

from collections.abc import Sequence
from typing import cast

from node.store import RedisReply, Store, StoreUnavailable, keys
from node.store.lists import UNREACHABLE, ListedEntities

_CHANGES = (
    *("offered", "claimed", "released", "completed", "canceled", "failed", "retried", "expired"),
    *("forgotten", "imported"),
)
INDEXED_AFTER = tuple(f"task.{what}" for what in _CHANGES)
"""Events after which a contract may be on offer or no longer. Events between claim and completion do not matter."""


class OfferReader(ListedEntities):
    """Reads the texts of contracts that are on offer."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, keys.tasks_with("offered"))

    async def statuses(self, task_ids: Sequence[str]) -> list[str]:
        """Return `open` for an offered contract, else its status; empty if there is none. Raises StoreUnavailable."""
        found = await self._store.run_all([("HMGET", keys.task(each), "kind", "status") for each in task_ids])
        return [_status(*row) for row in cast("list[list[bytes | None]]", found)]

    async def posts(self, refs: Sequence[tuple[str, int]]) -> list[tuple[str, str, str]]:
        """Return status, title and description of each contract; empty if there is none.

        The status is `unreachable` if the server of the contract cannot be read but others can. Raises
        StoreUnavailable.
        """
        names = ("kind", "status", "title", "description")
        found = await self._store.run_reachable([("HMGET", keys.task(task_id), *names) for task_id, _ in refs])
        return [_post(reply, seq) for (_, seq), reply in zip(refs, found, strict=True)]

    async def newest_replies(self, task_id: str, most: int) -> list[tuple[int, str]]:
        """Return an empty list: a contract is one post."""
        return []


def _post(reply: RedisReply | StoreUnavailable, seq: int) -> tuple[str, str, str]:
    if isinstance(reply, StoreUnavailable):
        return UNREACHABLE, "", ""
    kind, status, title, text = cast("list[bytes | None]", reply)
    return _status(kind, status), "" if seq else (title or b"").decode(), "" if seq else (text or b"").decode()


def _status(kind: bytes | None, status: bytes | None) -> str:
    if kind != b"contract" or not status:
        return ""
    return "open" if status == b"offered" else status.decode()
