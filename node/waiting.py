"""Holding a read until there is news (`wait=`, DESIGN 6).

A held read costs a place in a dictionary and a timer: wake-ups for all of them arrive on one
connection per primary. The number a process holds is bounded; beyond it reads answer at once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from node.store import News

T = TypeVar("T")

places = asyncio.Semaphore(8192)
"""Reads this process may hold at a time."""


async def held(
    news: News, channel: str, seconds: float, read: Callable[[], Awaitable[T]], is_news: Callable[[T], bool]
) -> T:
    """What `read` gives: at once if it is news or `seconds` is 0, else when it is, or when time is up."""
    if seconds <= 0 or places.locked():
        return await read()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    # Listening starts before the first read, so nothing can happen unnoticed between the two.
    async with places:
        with await news.listen(channel) as listener:
            value = await read()
            while not is_news(value):
                left = deadline - loop.time()
                if left <= 0 or await listener.next(left) is None:
                    break
                value = await read()
            return value
