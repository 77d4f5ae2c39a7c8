"""What GetTask and ListTasks may ask for, and get; the same for the node's own agent and for those of inboxes."""

import math
from datetime import UTC, datetime

from node.a2a.model import MAX_PAGE, A2ATask, ListQuery, State
from node.common.refusal import Invalid


def check_history_length(length: int | None, where: str = "query") -> None:
    """Raise Invalid for a negative one; `where` is where the client wrote it."""
    if length is not None and length < 0:
        raise Invalid.field(where, "historyLength", msg="Must not be negative")


def oldest_wanted(query: ListQuery) -> int:
    """The time from which on tasks are wanted, in milliseconds since 1970.

    Raises Invalid for that and for anything else that is wrong with the query, except its status.
    """
    size = query.page_size
    if not 1 <= size <= MAX_PAGE:
        raise Invalid.field("query", "pageSize", msg=f"Must be between 1 and {MAX_PAGE} inclusive, got {size}")
    check_history_length(query.history_length)
    if query.status_timestamp_after:
        return _milliseconds("statusTimestampAfter", query.status_timestamp_after)
    return _milliseconds("lastUpdatedAfter", query.last_updated_after)


def includes(query: ListQuery, state: State) -> bool:
    """Whether the answer includes tasks of that state: all without a `status`, or with the unspecified one."""
    return query.status in ("", "TASK_STATE_UNSPECIFIED", state)


def listed(task: A2ATask, query: ListQuery) -> A2ATask:
    """A task for a list, with `artifacts` exactly if they were asked for, even if there are none (A2A v1.0 §3.1.4)."""
    task.artifacts = (task.artifacts or []) if query.include_artifacts else None
    return task


def wrong_token() -> Invalid:
    """The refusal of a pageToken that this list has not given out."""
    return Invalid.field("query", "pageToken", msg="Must be the nextPageToken of an earlier answer")


def _milliseconds(name: str, instant: str) -> int:
    """Milliseconds since 1970 of an RFC 3339 time; 0 if it is empty. Raises Invalid."""
    if not instant:
        return 0
    try:
        when = datetime.fromisoformat(instant)
        return max(0, math.ceil((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise Invalid.field("query", name, msg="Must be a time in RFC 3339, UTC") from None
