"""Reading and writing much at once, without taking all the calls that a process may have under way."""

from collections.abc import Iterable, Sequence

from node.store.link import Reply
from node.store.scripts import Arg
from node.store.wire import Store

PART = 8
"""One in so many of the calls that may be under way is for one bulk: others go on meanwhile."""


async def bulk(store: Store, many: Iterable[Sequence[Arg]]) -> list[Reply]:
    """`store.commands` for any number of commands, some at a time. Raises StoreUnavailable, CommandFailed."""
    waiting = list(many)
    at_once = max(1, store.max_in_flight // PART)
    found: list[Reply] = []
    for start in range(0, len(waiting), at_once):
        found += await store.commands(waiting[start : start + at_once])
    return found
