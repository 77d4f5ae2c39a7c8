"""How the loops of a search worker wait, and end: at once, whatever they are doing.

Their work may be abandoned at any point; another worker, or this one after a restart, does it again.
"""

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from node.common.cancellation import ended_before
from node.store.wakeups import Listener

T = TypeVar("T")


@contextmanager
def woken_by(stop: asyncio.Event, listener: Listener) -> Generator[None]:
    """While the block runs, `stop` wakes the listener. Cheaper than `unless` around each wait."""

    async def wake() -> None:
        await stop.wait()
        listener.hear(b"")

    waking = asyncio.create_task(wake())
    try:
        yield
    finally:
        waking.cancel()


async def until_woken(listener: Listener, seconds: float, stop: asyncio.Event) -> None:
    """Return at a wake-up, when `stop` is set, or after `seconds`."""
    await unless(stop, listener.next(seconds))


async def unless(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """What `work` returns or raises; None if `stop` is set before it ends, which cancels it."""
    working = asyncio.create_task(work)
    if await ended_before(working, asyncio.create_task(stop.wait())) or not working.cancelled():
        return working.result()
    return None
