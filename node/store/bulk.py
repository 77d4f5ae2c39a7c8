"""Reading and writing much at once, without taking all the calls that a process may have under way."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from node.store.link import RedisReply
from node.store.scripts import Arg, Script
from node.store.wire import Store

T = TypeVar("T")

PART = 8
"""One in so many of the calls that may be under way is for one bulk: others go on meanwhile."""


async def bulk(store: Store, many: Iterable[Sequence[Arg]]) -> list[RedisReply]:
    """`store.commands` for any number of commands, some at a time. Raises StoreUnavailable, CommandFailed."""
    return await _in_parts(store, store.commands, many)


async def bulk_runs(
    store: Store, script: Script, many: Iterable[tuple[Sequence[str], Sequence[Arg]]]
) -> list[RedisReply]:
    """`store.runs` likewise."""
    return await _in_parts(store, lambda some: store.runs(script, some), many)


async def _in_parts(
    store: Store, call: Callable[[Sequence[T]], Awaitable[list[RedisReply]]], many: Iterable[T]
) -> list[RedisReply]:
    waiting = list(many)
    at_once = max(1, store.max_in_flight // PART)
    found: list[RedisReply] = []
    for start in range(0, len(waiting), at_once):
        found += await call(waiting[start : start + at_once])
    return found
