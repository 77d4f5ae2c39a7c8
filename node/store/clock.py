"""How far the clock of Redis is from that of this machine. Ids, lifetimes and limits are told by the clock of Redis,
signatures and tokens by that of the machine that is asked: both must agree to a few seconds.
"""

import asyncio
import time
from contextlib import suppress
from typing import cast

import structlog

from node.store.errors import StoreUnavailable
from node.store.wire import Store

log = structlog.get_logger()

SUSPECT_SECONDS = 2.0
"""From which on a difference is told: more than two machines whose clocks are kept have, less than does harm."""

READ_SECONDS = 300.0
"""Between two looks."""


async def skew(store: Store) -> float:
    """Seconds by which the clock of Redis is ahead of this one, half of the way to it and back taken off.

    Raises StoreUnavailable.
    """
    began = time.time()
    seconds, micros = cast("list[bytes]", await store.command("TIME"))
    return int(seconds) + int(micros) / 1e6 - (began + time.time()) / 2


async def watch(store: Store, stop: asyncio.Event) -> None:
    """Log when the clocks begin to differ, and when they agree again, until `stop` is set."""
    differed = False
    while not stop.is_set():
        pause = 1.0
        with suppress(StoreUnavailable):
            ahead = await skew(store)
            pause = READ_SECONDS
            differs = abs(ahead) >= SUSPECT_SECONDS
            if differs:
                log.warning("the clock of Redis and that of this machine differ", redis_ahead_s=round(ahead, 1))
            elif differed:
                log.info("the clock of Redis and that of this machine agree again")
            differed = differs
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)
