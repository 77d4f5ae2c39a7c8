"""Long poll: a read with `wait=` is answered once there is something new, or when its time is up (DESIGN 6).

A read that waits costs a place in a dictionary and a timer, but no connection: wake-ups for all of them arrive on one
connection to each primary. How many may wait in a process is bounded; beyond that reads are answered at once.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Protocol, TypeVar
from weakref import WeakKeyDictionary

from node.store import WakeUps

T = TypeVar("T")

MAX_WAITING = 8192
"""Reads that may wait in a process at the same time, unless `limit_waiting` said otherwise."""


class Hearing(Protocol):
    """What waits, and can be told to wait no longer."""

    def hear(self, message: bytes) -> None:
        """Stop waiting."""
        ...


class _Waiting:
    """The reads of a process that are waiting."""

    def __init__(self) -> None:
        self.listeners: set[Hearing] = set()
        self.most = MAX_WAITING
        self.released = False


_waiting: WeakKeyDictionary[WakeUps, _Waiting] = WeakKeyDictionary()


def limit_waiting(wakeups: WakeUps, most: int) -> None:
    """Let at most so many reads wait (RELAY_MAX_WAITING)."""
    _waiting.setdefault(wakeups, _Waiting()).most = most


def waiting_count(wakeups: WakeUps) -> int:
    """How many reads are waiting."""
    return len(_waiting.setdefault(wakeups, _Waiting()).listeners)


def may_wait(wakeups: WakeUps) -> bool:
    """Whether a read that wanted to wait now would."""
    waiting = _waiting.setdefault(wakeups, _Waiting())
    return not waiting.released and len(waiting.listeners) < waiting.most


def release_waiting(wakeups: WakeUps) -> None:
    """Answer all waiting reads with what there is, and let no others wait: the node is about to stop."""
    waiting = _waiting.setdefault(wakeups, _Waiting())
    waiting.released = True
    for listener in waiting.listeners:
        listener.hear(b"")


@contextmanager
def place_to_wait(wakeups: WakeUps, waiter: Hearing) -> Generator[bool]:
    """Count somebody among those who wait, while the block runs. Yields False if no more may wait."""
    waiting = _waiting.setdefault(wakeups, _Waiting())
    if waiting.released or len(waiting.listeners) >= waiting.most:
        yield False
        return
    waiting.listeners.add(waiter)
    try:
        yield True
    finally:
        waiting.listeners.discard(waiter)


async def wait_for_change(
    wakeups: WakeUps,
    channel: str,
    seconds: float,
    read: Callable[[], Awaitable[T]],
    is_new: Callable[[T], bool],
    lasts: Callable[[T], float] = lambda _: math.inf,
) -> T:
    """What `read` returns: at once if `is_new` says so of it, otherwise as soon as it does, or after `seconds`.

    `lasts` gives the seconds after which a value changes by itself, without a wake-up. It is then read again.
    """
    waiting = _waiting.setdefault(wakeups, _Waiting())
    if seconds <= 0 or waiting.released or len(waiting.listeners) >= waiting.most:
        return await read()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    # Listening begins before the first read, so that no change between the two goes unnoticed.
    with await wakeups.listen(channel) as listener:
        waiting.listeners.add(listener)
        try:
            value = await read()
            while not is_new(value) and not waiting.released:
                left, life = deadline - loop.time(), lasts(value)
                if left <= 0 or (await listener.next(min(left, life)) is None and left <= life):
                    break
                value = await read()
            return value
        finally:
            waiting.listeners.discard(listener)


async def wait_for_next(
    wakeups: WakeUps,
    channel: str,
    seconds: float,
    since: int,
    read: Callable[[int], Awaitable[T]],
    last_of: Callable[[T], int | None],
    is_new: Callable[[T], bool],
    lasts: Callable[[T], float] = lambda _: math.inf,
) -> T:
    """`wait_for_change` for things with numbers, of which `read` gives those after `since`.

    `last_of` is the number of the last one there is; None if there are none to come. Who is ahead of it waits for the
    next one: to be woken by all before its own would cost a read each, and answer nobody.
    """

    async def look() -> T:
        nonlocal since
        found = await read(since)
        last = last_of(found)
        since = since if last is None else min(since, last)
        return found

    return await wait_for_change(wakeups, channel, seconds, look, is_new, lasts)
