"""Long poll: a read with `wait=` is answered once there is something new, or when its time is up (DESIGN 6).

A waiting read costs a place in a dictionary and a timer, but no connection: wake-ups for all reads arrive on one
connection to each primary. How many may wait in a process is bounded (`waiting`); further ones are answered at once.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Container
from typing import TypeVar

from node.common.pauses import paused
from node.store import WakeUps

T = TypeVar("T")


def another_status(known: str | None, settled: Container[str] = (), last: Container[str] = ()) -> Callable[[str], bool]:
    """Whether a status, of those read one after the other, is one to answer with: another than the `known` one.

    A reader who names none waits for another than the first one read, but not in a `settled` one, which seldom changes.
    Nobody waits in a `last` one, after which no other comes.
    """
    seen = known

    def is_news(status: str) -> bool:
        nonlocal seen
        seen = seen or status
        return status != seen or status in last or (known is None and status in settled)

    return is_news


async def wait_for_change(
    wakeups: WakeUps,
    channel: str,
    seconds: float,
    read: Callable[[], Awaitable[T]],
    is_new: Callable[[T], bool],
    lasts: Callable[[T], float] = lambda _: math.inf,
) -> T:
    """The first value of `read` for which `is_new` holds, or the last one read when `seconds` are over.

    `lasts` gives the seconds after which a value changes by itself, without a wake-up: then it is read again.
    """
    if seconds <= 0 or not wakeups.waiters.may_wait:
        return await read()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    # Listening begins before the first read, so that no change between the two goes unnoticed.
    with await wakeups.listen(channel) as listener, wakeups.waiters.place(listener) as may_wait:
        while True:
            value = await read()
            left, life = deadline - loop.time(), lasts(value)
            if not may_wait or is_new(value) or wakeups.waiters.released or left <= 0:
                return value
            del value  # thousands may wait, each with 80 kB; it is read again, also when the time is up
            async with paused():
                await listener.next(min(left, life))


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
    """`wait_for_change` for numbered things, of which `read` returns those after `since`.

    `last_of` gives the number of the last one; None if none will come. A greater `since` is lowered to it, so that the
    next one is new: otherwise the reader would be woken in vain by all up to `since`.
    """

    async def look() -> T:
        nonlocal since
        found = await read(since)
        last = last_of(found)
        since = since if last is None else min(since, last)
        return found

    return await wait_for_change(wakeups, channel, seconds, look, is_new, lasts)
