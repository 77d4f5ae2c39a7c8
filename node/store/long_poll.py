"""Holding a read until there is news (`wait=`, DESIGN 6).

A held read costs a place in a dictionary and a timer: wake-ups for all of them arrive on one
connection per primary. The number a process holds is bounded; beyond it reads answer at once.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

from node.store import Listener, News

T = TypeVar("T")

MOST = 8192
"""Reads a process may hold at a time, unless `bound` said otherwise."""


class _Held:
    """The reads that are held now."""

    def __init__(self) -> None:
        self.listeners: set[Listener] = set()
        self.most = MOST
        self.released = False


_held: WeakKeyDictionary[News, _Held] = WeakKeyDictionary()


def bound(news: News, most: int) -> None:
    """Hold at most that many reads (RELAY_MAX_WAITING)."""
    _held.setdefault(news, _Held()).most = most


def count(news: News) -> int:
    """How many reads are held now."""
    return len(_held.setdefault(news, _Held()).listeners)


def release(news: News) -> None:
    """Answer all held reads with what there is, and hold no more: the node is about to stop."""
    held = _held.setdefault(news, _Held())
    held.released = True
    for listener in held.listeners:
        listener.hear(b"")


async def held(
    news: News,
    channel: str,
    seconds: float,
    read: Callable[[], Awaitable[T]],
    is_news: Callable[[T], bool],
    lasts: Callable[[T], float] = lambda _: math.inf,
) -> T:
    """What `read` gives: at once if it is news or `seconds` is 0, else when it is, or when time is up.

    `lasts` says for how many seconds something holds that ends by itself, which nobody tells: then it is read again.
    """
    mine = _held.setdefault(news, _Held())
    if seconds <= 0 or mine.released or len(mine.listeners) >= mine.most:
        return await read()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    # Listening starts before the first read, so nothing can happen unnoticed between the two.
    with await news.listen(channel) as listener:
        mine.listeners.add(listener)
        try:
            value = await read()
            while not is_news(value) and not mine.released:
                left, life = deadline - loop.time(), lasts(value)
                if left <= 0 or (await listener.next(min(left, life)) is None and left <= life):
                    break
                value = await read()
            return value
        finally:
            mine.listeners.discard(listener)
