"""What becomes due at a time, in each partition.

It is taken by one worker, and by another if that one dies, where doing it twice would be noticed (a callback is sent).
Otherwise any worker that finds it does it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from node.store.bulk import bulk_steps_reachable, reached
from node.store.steps import Key, step
from node.store.wire import Store


@step
def due_take(*, due: Key, hidden: int, limit: int) -> None:
    """Takes what is due, for one worker alone."""


@step
def due_find(*, due: Key, limit: int) -> None:
    """Finds what is due, whoever else does."""


class TakenNames(NamedTuple):
    """What was taken from a partition."""

    names: list[str]
    next_seconds: float | None
    """Until another is due; None if there is none."""


async def take_due(store: Store, due: Mapping[int, Key], hidden_ms: int, limit: int) -> dict[int, TakenNames]:
    """Take what is due by partition, `limit` of each at most; it becomes due again after `hidden_ms`.

    Partitions that are out of reach are left for later: what was taken from the others is not lost with them. Raises
    StoreUnavailable if all are.
    """
    steps = [due_take(due=key, hidden=hidden_ms, limit=limit) for key in due.values()]
    taken: dict[int, TakenNames] = {}
    for partition, reply in reached(due, await bulk_steps_reachable(store, steps)):
        wait_ms, *names = cast("list[int | bytes]", reply)
        wait = cast("int", wait_ms)
        taken[partition] = TakenNames(
            [cast("bytes", each).decode() for each in names], wait / 1000 if wait >= 0 else None
        )
    return taken


async def find_due(store: Store, due: Sequence[Key], limit: int) -> list[str]:
    """The names that are due, `limit` of each partition at most, of those partitions that can be read.

    Raises StoreUnavailable if none can.
    """
    found = reached(due, await bulk_steps_reachable(store, [due_find(due=key, limit=limit) for key in due]))
    return [name.decode() for _, names in found for name in cast("list[bytes]", names)]
