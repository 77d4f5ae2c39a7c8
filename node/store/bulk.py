"""Any number of commands or steps, a bounded number at a time.

A process may have only so many calls under way (`Store.max_in_flight`); one more is refused. Code that reads or writes
a whole partition, or many entities, therefore goes through here instead of `Store.commands` and `Store.run_all`.
"""

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import TypeVar, cast

from node.store.errors import StoreBusy, StoreUnavailable
from node.store.link import RedisReply
from node.store.scripts import Arg
from node.store.steps import Step
from node.store.store import Store

T = TypeVar("T")

SHARE_OF_CALLS = 8
"""A bulk has at most one in this many of the allowed calls under way; the others are left for other callers."""


async def bulk(store: Store, commands: Iterable[Sequence[Arg]]) -> list[RedisReply]:
    """`store.commands` for any number of commands. Raises StoreUnavailable, CommandFailed."""
    return [reply for some in _batches(store, commands) for reply in await store.commands(some)]


async def total_of(store: Store, commands: Iterable[Sequence[Arg]]) -> int:
    """The sum of the numbers that commands answer. Raises StoreUnavailable, CommandFailed."""
    return sum(cast("list[int]", await bulk(store, commands)))


async def bulk_steps(store: Store, steps: Iterable[Step]) -> list[RedisReply]:
    """`store.run_all` for any number of steps. Raises StoreUnavailable, CommandFailed."""
    return [reply for some in _batches(store, steps) for reply in await store.run_all(some)]


async def bulk_reachable(store: Store, commands: Iterable[Sequence[Arg]]) -> list[RedisReply | StoreUnavailable]:
    """`store.reachable` for any number of commands.

    Raises StoreUnavailable only if no other server can be reached either: a page is not refused because its few
    entities are all out of reach. Raises StoreBusy, CommandFailed.
    """
    replies = [reply for some in _batches(store, commands) for reply in await store.reachable(some)]
    failure = _failure_of_all(replies)
    if failure and (isinstance(failure, StoreBusy) or store.serving_partition() is None):
        raise copy(failure)
    return replies


async def bulk_steps_reachable(store: Store, steps: Iterable[Step]) -> list[RedisReply | StoreUnavailable]:
    """`store.run_reachable` for any number of steps. Raises StoreUnavailable if none ran, CommandFailed."""
    replies = [reply for some in _batches(store, steps) for reply in await store.run_reachable(some)]
    if failure := _failure_of_all(replies):
        raise copy(failure)
    return replies


def reached(wanted: Iterable[T], replies: Iterable[RedisReply | StoreUnavailable]) -> list[tuple[T, RedisReply]]:
    """Each wanted thing with its reply; those whose server was out of reach are left out."""
    pairs = zip(wanted, replies, strict=True)
    return [(each, reply) for each, reply in pairs if not isinstance(reply, StoreUnavailable)]


def _batches(store: Store, many: Iterable[T]) -> Iterator[Sequence[T]]:
    """As many at a time as one bulk may have under way."""
    waiting = list(many)
    at_once = max(1, store.max_in_flight // SHARE_OF_CALLS)
    for start in range(0, len(waiting), at_once):
        yield waiting[start : start + at_once]


def _failure_of_all(replies: Sequence[RedisReply | StoreUnavailable]) -> StoreUnavailable | None:
    """The first failure, if there are only failures."""
    failures = [reply for reply in replies if isinstance(reply, StoreUnavailable)]
    return failures[0] if failures and len(failures) == len(replies) else None
