"""When contracts that are over are kept in less memory, and when contracts are removed."""

from collections.abc import Sequence

from node.tasks.store import TaskStore
from node.tasks.view import StoredTask


class TaskRetention:
    """Compacts contracts that are over, and removes contracts that nobody has claimed."""

    def __init__(self, store: TaskStore, hot_ms: int, kept_ms: int) -> None:
        """`hot_ms`: how long a contract that is over stays as it is; `kept_ms`: how long it is kept at all."""
        self._store = store
        self._hot_ms = hot_ms
        self._kept_ms = kept_ms

    async def compact(self, tasks: Sequence[str], now: int) -> int:
        """Compact those of the contracts that have been over for long enough; how many. Raises StoreUnavailable."""
        ended = await self._store.ended_hot(tasks)
        before = now - self._hot_ms
        return await self._store.compact(
            [task for task, at in zip(tasks, ended, strict=True) if at is not None and at <= before]
        )

    async def forget(self, tasks: Sequence[str], now: int) -> int:
        """Remove those of the contracts whose time is over, which of an offer begins when it was last put on offer; how
        many those were. Raises StoreUnavailable.
        """
        rows = await self._store.read_for_lists(tasks)
        gone = [task for task, row in rows.items() if not row.is_contract]
        before = now - self._kept_ms
        old = {task: row.stage for task, row in rows.items() if row.is_contract and row.changed_at <= before}
        forgotten = await self._store.forget(old)
        await self._store.project(dict.fromkeys((*gone, *forgotten), StoredTask(0, {})))
        return len(forgotten)
