"""Waiting and stopping for the loops of a search worker. A loop stops at once, whatever it is doing.

Its work may be abandoned at any point: another worker, or the same one after a restart, does it again.
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
    """Wake the listener when `stop` is set while the block runs. Cheaper than wrapping each wait in `unless`."""

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
    """Return what `work` returns, or raise what it raises. If `stop` is set first, cancel `work` and return None."""
    working = asyncio.create_task(work)
    if await ended_before(working, asyncio.create_task(stop.wait())) or not working.cancelled():
        return working.result()
    return None
