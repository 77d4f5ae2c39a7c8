"""Long poll: a read with `wait=` is answered once there is something new (DESIGN 6).

A read that waits costs a place in a dictionary and a timer: wake-ups for all of them arrive on one
connection per primary. The number that wait in a process is bounded; beyond it reads answer at once.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

from node.store import Listener, WakeUps

T = TypeVar("T")

MAX_WAITING = 8192
"""Reads that may wait in a process at a time, unless `limit_waiting` said otherwise."""


class _Waiting:
    """The reads of a process that wait now."""

    def __init__(self) -> None:
        self.listeners: set[Listener] = set()
        self.most = MAX_WAITING
        self.released = False


_waiting: WeakKeyDictionary[WakeUps, _Waiting] = WeakKeyDictionary()


def limit_waiting(wakeups: WakeUps, most: int) -> None:
    """Let at most that many reads wait (RELAY_MAX_WAITING)."""
    _waiting.setdefault(wakeups, _Waiting()).most = most


def waiting_count(wakeups: WakeUps) -> int:
    """How many reads wait now."""
    return len(_waiting.setdefault(wakeups, _Waiting()).listeners)


def release_waiting(wakeups: WakeUps) -> None:
    """Answer all reads that wait with what there is, and let no more wait: the node is about to stop."""
    waiting = _waiting.setdefault(wakeups, _Waiting())
    waiting.released = True
    for listener in waiting.listeners:
        listener.hear(b"")


async def wait_for_change(
    wakeups: WakeUps,
    channel: str,
    seconds: float,
    read: Callable[[], Awaitable[T]],
    is_new: Callable[[T], bool],
    lasts: Callable[[T], float] = lambda _: math.inf,
) -> T:
    """What `read` gives: at once if it is new or `seconds` is 0, else when it is, or when the time is up.

    `lasts` says after how many seconds a value changes by itself, without a wake-up: then it is read again.
    """
    waiting = _waiting.setdefault(wakeups, _Waiting())
    if seconds <= 0 or waiting.released or len(waiting.listeners) >= waiting.most:
        return await read()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    # Listening starts before the first read, so nothing can happen unnoticed between the two.
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
