"""How many sessions, inboxes, threads and contracts the node has, by the length of their lists.

Lists follow their entities with a delay, so the numbers are close but not exact.
"""

from typing import cast

from node.config import Settings
from node.share.cost import Kind
from node.store import Store, ids, keys
from node.store.clock import now_ms
from node.store.lists import total_of
from node.tasks.model import STATUSES


def limits_of(settings: Settings) -> dict[Kind, int]:
    """Return how many of each kind the node may hold; 0 = any number."""
    return {
        "session": settings.max_sessions,
        "inbox": settings.max_inboxes,
        "thread": settings.max_threads,
        "task": settings.max_tasks,
    }


async def totals(store: Store) -> dict[Kind, int]:
    """Return how many of each kind there are; of sessions and inboxes, only live ones. Raises StoreUnavailable."""
    now = await now_ms(store)
    # One after the other: a process has few calls to spare under load.
    return {
        "session": await _not_ended(store, "session", now),
        "inbox": await _not_ended(store, "inbox", now),
        "thread": sum((await threads_by_status(store)).values()),
        "task": await total_of(store, (("ZCARD", keys.tasks_with(each)) for each in STATUSES)),
    }


async def reports_waiting(store: Store) -> int:
    """Return how many reported posts the operator has not looked at. Raises StoreUnavailable."""
    return await total_of(store, (("ZCARD", keys.reports(each)) for each in range(ids.PARTITIONS)))


async def _not_ended(store: Store, kind: Kind, now: int) -> int:
    """Return how many of a kind have not expired."""
    places = (keys.places_of_all(each, kind) for each in range(ids.PARTITIONS))
    return await total_of(store, (("ZCOUNT", each, now, "+inf") for each in places))


async def threads_by_status(store: Store) -> dict[str, int]:
    """Return how many threads the board has in each status. Raises StoreUnavailable."""
    lists = {"open": keys.OPEN_THREADS, "closed": keys.CLOSED_THREADS, "hidden": keys.HIDDEN_THREADS}
    counts = await store.run_all([("ZCARD", listed) for listed in lists.values()])
    return dict(zip(lists, cast("list[int]", counts), strict=True))
