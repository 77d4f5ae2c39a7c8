"""How many sessions, threads and contracts the node has, counted by the lists that they are on."""

from typing import cast

import msgspec

from node.store import Store, ids, keys
from node.tasks.model import STATUSES

SESSIONS = "session"
"""Of the places that clients have, those of sessions."""


class Totals(msgspec.Struct, frozen=True):
    """What the node has, about: lists follow their entities after a moment."""

    session: int
    thread: int
    task: int


async def totals(store: Store) -> Totals:
    """Count them; of sessions, those that have not expired. Raises StoreUnavailable."""
    now = cast("list[bytes]", await store.command("TIME"))[0].decode() + "000"
    sessions = [("ZCOUNT", keys.places_of_all(each, SESSIONS), now, "+inf") for each in range(ids.PARTITIONS)]
    # One after the other: a process has few calls to spare under load.
    return Totals(
        sum(cast("list[int]", await store.commands(sessions))),
        sum((await threads_by_status(store)).values()),
        sum(cast("list[int]", await store.commands([("ZCARD", keys.tasks_with(status)) for status in STATUSES]))),
    )


async def threads_by_status(store: Store) -> dict[str, int]:
    """How many threads the board has in each status. Raises StoreUnavailable."""
    lists = {"open": keys.OPEN_THREADS, "closed": keys.CLOSED_THREADS, "hidden": keys.HIDDEN_THREADS}
    counts = await store.commands([("ZCARD", listed) for listed in lists.values()])
    return dict(zip(lists, cast("list[int]", counts), strict=True))
