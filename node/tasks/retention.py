"""When contracts that are over are kept in less memory, and when contracts are removed."""

from collections.abc import Sequence

from node.tasks.store import TaskStore
from node.tasks.view import StoredTask


async def compact_ended(contracts: TaskStore, tasks: Sequence[str], before: int) -> int:
    """Compact those of the contracts that were over at the time `before` (ms); how many. Raises StoreUnavailable."""
    ended = await contracts.ended_hot(tasks)
    return await contracts.compact(
        [task for task, at in zip(tasks, ended, strict=True) if at is not None and at <= before]
    )


async def remove_old(contracts: TaskStore, tasks: Sequence[str], before: int) -> int:
    """Remove those of the contracts that have not changed since `before` (ms), of offers those that were last put on
    offer by then; how many. Raises StoreUnavailable.
    """
    rows = await contracts.read_for_lists(tasks)
    gone = [task for task, row in rows.items() if not row.is_contract]
    old = {task: row.stage for task, row in rows.items() if row.is_contract and row.changed_at <= before}
    forgotten = await contracts.forget(old)
    await contracts.project(dict.fromkeys((*gone, *forgotten), StoredTask(0, {})))
    return len(forgotten)
