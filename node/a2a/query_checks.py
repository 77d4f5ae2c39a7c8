"""Checks and filters for GetTask and ListTasks, shared by the node's own agent and the agents of inboxes."""

import math
from datetime import UTC, datetime

from node.a2a.model import MAX_PAGE, A2ATask, ListQuery, State
from node.common.refusal import Invalid


def check_history_length(length: int | None, where: str = "query") -> None:
    """Raise Invalid if `length` is negative. `where` is the part of the request that has it: query or body."""
    if length is not None and length < 0:
        raise Invalid.field(where, "historyLength", msg="Must not be negative")


def oldest_wanted(query: ListQuery) -> int:
    """Check the query, except its status, and return the earliest status time of the tasks that it asks for.

    The time is in milliseconds since 1970, 0 if the query sets none. Raises Invalid.
    """
    size = query.page_size
    if not 1 <= size <= MAX_PAGE:
        raise Invalid.field("query", "pageSize", msg=f"Must be between 1 and {MAX_PAGE} inclusive, got {size}")
    check_history_length(query.history_length)
    return max(
        _milliseconds("statusTimestampAfter", query.status_timestamp_after),
        _milliseconds("lastUpdatedAfter", query.last_updated_after),
    )


def includes(query: ListQuery, state: State) -> bool:
    """Return whether the query asks for tasks in that state. Without a status, or with UNSPECIFIED, it asks for all."""
    return query.status in ("", "TASK_STATE_UNSPECIFIED", state)


def listed(task: A2ATask, query: ListQuery) -> A2ATask:
    """Prepare a task for a list (A2A v1.0 §3.1.4).

    It has `artifacts`, even if they are empty, exactly if the query asks for them.
    """
    task.artifacts = (task.artifacts or []) if query.include_artifacts else None
    return task


def wrong_token() -> Invalid:
    """Return the refusal of a pageToken that did not come from an earlier page of the list."""
    return Invalid.field("query", "pageToken", msg="Must be the nextPageToken of an earlier answer")


def _milliseconds(name: str, instant: str) -> int:
    """Convert an RFC 3339 time to milliseconds since 1970, rounded up; an empty one to 0. Raises Invalid."""
    if not instant:
        return 0
    try:
        when = datetime.fromisoformat(instant)
        return max(0, math.ceil((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise Invalid.field("query", name, msg="Must be an RFC 3339 time, such as 2026-01-31T12:00:00Z") from None
