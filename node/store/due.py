"""Schedules: a sorted set in each partition, of entries by the time at which they are due.

`due_take` leases an entry to one worker, for work that must not be done twice (sending a callback). `due_find` shows
the entry to every worker.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from node.store.decoding import names_of
from node.store.errors import StoreUnavailable
from node.store.steps import Key, step
from node.store.store import Store
from node.store.unreadable import reached

TAKEN_AT_ONCE = 16
"""Most entries that are taken from a partition at a time."""


@step
def due_take(*, due: Key, hidden: int, limit: int) -> None:
    """Lease due entries to one worker."""


@step
def due_find(*, due: Key, limit: int) -> None:
    """Find due entries, which other workers may find, too."""


class TakenNames(NamedTuple):
    """The entries taken from a partition."""

    names: list[str]
    next_seconds: float | None
    """Seconds until the next entry is due; None if there is none."""


async def take_due(store: Store, due: Mapping[int, Key], hidden_ms: int) -> dict[int, TakenNames]:
    """Lease due entries of each partition. They become due again after `hidden_ms`, the visibility timeout.

    Partitions that are out of reach are skipped, so that entries taken from the others are not lost. Raises
    StoreUnavailable if all are out of reach.
    """
    steps = [due_take(due=key, hidden=hidden_ms, limit=TAKEN_AT_ONCE) for key in due.values()]
    taken: dict[int, TakenNames] = {}
    for partition, reply in reached(due, await store.run_reachable(steps)):
        wait_ms, *names = cast("list[Any]", reply)
        taken[partition] = TakenNames(names_of(names), wait_ms / 1000 if wait_ms >= 0 else None)
    if due and not taken:
        raise StoreUnavailable("no partition in which something is due can be reached")
    return taken


async def find_due(store: Store, due: Sequence[Key], limit: int) -> list[str]:
    """Return the names that are due, up to `limit` from each partition that can be reached. Raises StoreUnavailable if
    no server can be reached.
    """
    found = reached(due, await store.run_reachable([due_find(due=key, limit=limit) for key in due]))
    return [name for _, names in found for name in names_of(names)]
