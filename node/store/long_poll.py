"""Long polls: a read with `wait=` is answered once there is something new, or when its time is up (DESIGN 6).

A waiting read costs a dictionary entry and a timer, but no connection: the wake-ups for all reads arrive on one
connection to each primary. The number of waiting reads in a process is bounded (`waiting`); further reads are answered
at once.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Container
from typing import TypeVar

from node.common.pauses import paused
from node.store import WakeUps
from node.store.wakeups import Prefix

T = TypeVar("T")


def another_status(known: str | None, settled: Container[str] = (), last: Container[str] = ()) -> Callable[[str], bool]:
    """Return a predicate for the statuses read one after the other: whether to answer with a status or go on waiting.

    A status is an answer if it differs from `known`; if `known` is None, from the first status read. A `last` status,
    which never changes again, is always an answer. So is a `settled` one, which rarely changes, if `known` is None.
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
    end: tuple[str, Prefix] | None = None,
) -> T:
    """Return the first value of `read` for which `is_new` holds, or the last value read when `seconds` are over.

    `lasts` gives the seconds after which a value changes by itself, without a wake-up; then it is read again. `end`:
    another channel, and how the messages on it begin after which `read` fails, so that it is read again, too.
    """
    if seconds <= 0 or not wakeups.waiters.may_wait:
        return await read()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    # Listening begins before the first read, so that no change between the two goes unnoticed.
    with await wakeups.listen(channel) as listener, wakeups.waiters.place(listener) as may_wait:
        if end:
            await wakeups.listen(*end, listener)
        while True:
            value = await read()
            left, life = deadline - loop.time(), lasts(value)
            if not may_wait or is_new(value) or wakeups.waiters.released or left <= 0:
                return value
            del value  # frees up to 80 kB for each of thousands that wait; it is read again in any case
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
    """Wait like `wait_for_change` for numbered items, of which `read` returns those after `since`.

    `last_of` gives the number of the last item; None if there will be no more. If `since` is greater than that number,
    it is lowered to it, so that the next item counts as new. Otherwise every item up to `since` would wake the reader
    in vain.
    """

    async def look() -> T:
        nonlocal since
        found = await read(since)
        last = last_of(found)
        since = since if last is None else min(since, last)
        return found

    return await wait_for_change(wakeups, channel, seconds, look, is_new, lasts)
