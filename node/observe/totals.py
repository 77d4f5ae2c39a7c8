"""How many sessions, threads and contracts the node has, counted by the lists that they are on.

Lists follow their entities after a moment, so these are close and not exact.
"""

from typing import cast

from node.share.cost import Kind
from node.store import Store, ids, keys
from node.tasks.model import STATUSES

SESSIONS = "session"
"""Of the places that clients have, those of sessions."""


async def totals(store: Store) -> dict[Kind, int]:
    """Count them; of sessions, those that have not expired. Raises StoreUnavailable."""
    now = cast("list[bytes]", await store.command("TIME"))[0].decode() + "000"
    sessions = [("ZCOUNT", keys.places_of_all(each, SESSIONS), now, "+inf") for each in range(ids.PARTITIONS)]
    # One after the other: a process has few calls to spare under load.
    return {
        "session": sum(cast("list[int]", await store.commands(sessions))),
        "thread": sum((await threads_by_status(store)).values()),
        "task": sum(cast("list[int]", await store.commands([("ZCARD", keys.tasks_with(each)) for each in STATUSES]))),
    }


async def threads_by_status(store: Store) -> dict[str, int]:
    """How many threads the board has in each status. Raises StoreUnavailable."""
    lists = {"open": keys.OPEN_THREADS, "closed": keys.CLOSED_THREADS, "hidden": keys.HIDDEN_THREADS}
    counts = await store.commands([("ZCARD", listed) for listed in lists.values()])
    return dict(zip(lists, cast("list[int]", counts), strict=True))
