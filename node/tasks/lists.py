"""In which lists a contract belongs, and what those who wait for work are told of it."""

from collections.abc import Sequence

from node.store import keys
from node.store.steps import Step
from node.tasks.model import STATUSES
from node.tasks.offers import announcement_of
from node.tasks.view import StoredTask


def changes_of(rows: Sequence[tuple[str, StoredTask]]) -> tuple[list[list[str | int]], list[Step]]:
    """The commands that list contracts under their status and nowhere else, and the steps that tell of offers."""
    changes: list[list[str | int]] = []
    for name in STATUSES:
        here = [part for task_id, row in rows if row.is_in(name) for part in (row.created_at, task_id)]
        elsewhere = [task_id for task_id, row in rows if row.may_have_been(name) and not row.is_in(name)]
        if here:
            changes.append(["ZADD", keys.tasks_with(name), *here])
        if elsewhere:
            changes.append(["ZREM", keys.tasks_with(name), *elsewhere])
    return changes, [step for task_id, row in rows if (step := announcement_of(task_id, row))]
