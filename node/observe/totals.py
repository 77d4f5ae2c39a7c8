"""How many sessions, inboxes, threads and contracts the node has, counted by the lists that they are on.

Lists follow their entities after a moment, so these are close and not exact.
"""

from typing import cast

from node.share.cost import Kind
from node.store import Store, ids, keys
from node.tasks.model import STATUSES

LIVE: tuple[Kind, ...] = ("session", "inbox")
"""Of the places that clients have, those of what has a life of its own."""


async def totals(store: Store) -> dict[Kind, int]:
    """Count them; of sessions and inboxes, those that have not expired. Raises StoreUnavailable."""
    now = cast("list[bytes]", await store.command("TIME"))[0].decode() + "000"
    # One after the other: a process has few calls to spare under load.
    return {
        **{kind: await _live(store, kind, now) for kind in LIVE},
        "thread": sum((await threads_by_status(store)).values()),
        "task": sum(cast("list[int]", await store.commands([("ZCARD", keys.tasks_with(each)) for each in STATUSES]))),
    }


async def reports_waiting(store: Store) -> int:
    """How many reported posts the operator has not looked at. Raises StoreUnavailable."""
    counts = await store.commands([("ZCARD", keys.reports(each)) for each in range(ids.PARTITIONS)])
    return sum(cast("list[int]", counts))


async def _live(store: Store, kind: Kind, now: str) -> int:
    counts = [("ZCOUNT", keys.places_of_all(each, kind), now, "+inf") for each in range(ids.PARTITIONS)]
    return sum(cast("list[int]", await store.commands(counts)))


async def threads_by_status(store: Store) -> dict[str, int]:
    """How many threads the board has in each status. Raises StoreUnavailable."""
    lists = {"open": keys.OPEN_THREADS, "closed": keys.CLOSED_THREADS, "hidden": keys.HIDDEN_THREADS}
    counts = await store.commands([("ZCARD", listed) for listed in lists.values()])
    return dict(zip(lists, cast("list[int]", counts), strict=True))
