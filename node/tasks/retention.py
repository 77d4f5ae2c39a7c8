"""Compacts contracts some time after they are over, and removes old contracts."""

from collections.abc import Sequence

from node.tasks.store import TaskStore
from node.tasks.view import StoredTask


async def compact_ended(contracts: TaskStore, tasks: Sequence[str], before: int) -> int:
    """Compact the contracts that were over at the time `before` (ms). Returns how many. Raises StoreUnavailable."""
    ended = await contracts.ended_hot(tasks)
    return await contracts.compact(
        [task for task, at in zip(tasks, ended, strict=True) if at is not None and at <= before]
    )


async def remove_old(contracts: TaskStore, tasks: Sequence[str], before: int) -> int:
    """Remove the contracts whose status has not changed since `before` (ms). Returns how many.

    For a contract on offer, the time when it was last put on offer counts. Raises StoreUnavailable.
    """
    rows = await contracts.read_for_lists(tasks)
    gone = [task for task, row in rows.items() if not row.is_contract]
    old = {task: row.stage for task, row in rows.items() if row.is_contract and row.changed_at <= before}
    forgotten = await contracts.forget(old)
    await contracts.project(dict.fromkeys((*gone, *forgotten), StoredTask(0, {})))
    return len(forgotten)
