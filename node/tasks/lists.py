"""In which lists a contract belongs, and what those who wait for work are told of it."""

from collections import defaultdict
from collections.abc import Sequence

from node.store import keys
from node.store.steps import Step
from node.tasks.model import TaskStatus
from node.tasks.offers import announcement_of
from node.tasks.view import StoredTask


def changes_of(
    rows: Sequence[tuple[str, StoredTask]], none_in: Sequence[TaskStatus] = ()
) -> tuple[list[list[str | int]], list[Step]]:
    """The commands that list contracts under their status and nowhere else, and the steps that tell of offers.

    `none_in`: statuses that none of the contracts has been listed under before.
    """
    here: dict[TaskStatus, list[str | int]] = defaultdict(list)
    elsewhere: dict[TaskStatus, list[str]] = defaultdict(list)
    for task_id, row in rows:
        listed = row.status if row.is_contract else None
        if listed:
            here[listed] += (row.created_at, task_id)
        for status in row.statuses:
            if status != listed and status not in none_in:
                elsewhere[status].append(task_id)
    changes: list[list[str | int]] = [["ZADD", keys.tasks_with(status), *parts] for status, parts in here.items()]
    changes += [["ZREM", keys.tasks_with(status), *task_ids] for status, task_ids in elsewhere.items()]
    return changes, [step for task_id, row in rows if (step := announcement_of(task_id, row))]
