"""When contracts that are over are kept in less memory, and when contracts are removed."""

from asyncio import gather
from collections.abc import Sequence

from node.tasks.store import TaskStore
from node.tasks.view import LISTED, StoredTask


class TaskRetention:
    """Compacts contracts that are over, and removes those that nobody holds. A time of 0 is for ever."""

    def __init__(self, store: TaskStore, hot_ms: int, kept_ms: int) -> None:
        self._store = store
        self._hot_ms = hot_ms
        self._kept_ms = kept_ms

    async def compact(self, tasks: Sequence[str], now: int) -> int:
        """Compact those of the contracts that have been over for long enough; how many. Raises StoreUnavailable."""
        return sum(await gather(*(self._compacted(task, now - self._hot_ms) for task in tasks)))

    async def forget(self, tasks: Sequence[str], now: int) -> int:
        """Remove those of the contracts whose time is over; how many were. Raises StoreUnavailable."""
        return sum(await gather(*(self._forgotten(task, now - self._kept_ms) for task in tasks)))

    async def _compacted(self, task: str, before: int) -> bool:
        ended = await self._store.ended_hot(task)
        return ended is not None and ended <= before and await self._store.compact(task)

    async def _forgotten(self, task: str, before: int) -> bool:
        row = await self._store.read(task, (*LISTED, b"canceled_at"))
        if row.is_contract and (_since(row) > before or not await self._store.forget(task)):
            return False
        await self._store.place(task, None)
        return row.is_contract


def _since(row: StoredTask) -> int:
    """When a contract became what it is (ms); an offer, when it was made."""
    times = (row.fields.get(name) for name in (b"completed_at", b"canceled_at", b"created_at"))
    return next(int(time) for time in times if time)
