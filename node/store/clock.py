"""The clock of Redis, and how far it differs from the clock of this machine.

Timestamps of records, lifetimes and limits use the clock of Redis. The time in an id, and the age of a signature or of
an upload URL, use the clock of the machine that answers. So the two must agree to within a few seconds.
"""

import asyncio
import time
from contextlib import suppress
from typing import cast

import structlog

from node.common.stopping import sleep_unless_stopped
from node.store.errors import StoreUnavailable
from node.store.store import Store

log = structlog.get_logger()

SUSPECT_SECONDS = 2.0
"""Smallest clock difference that is logged: more than synchronised clocks show, less than does harm."""

READ_SECONDS = 300.0
"""Time between two comparisons."""


async def now_ms(store: Store, key: str = "") -> int:
    """Return the milliseconds since 1970 by the clock of the server that has `key`. Raises StoreUnavailable."""
    return _milliseconds(await store.command("TIME", key=key))


async def skew(store: Store) -> float:
    """Return the seconds by which the clock of Redis is certainly ahead of this machine's; negative if it is behind.

    With several primaries, the one that differs most counts. Raises StoreUnavailable.
    """
    began = time.time()
    each = [_milliseconds(reply) / 1000 for reply in await store.everywhere("TIME")]
    ended = time.time()
    # Redis read its clock at some moment between the two, which may be far apart on a busy machine.
    return max((theirs - min(max(theirs, began), ended) for theirs in each), key=abs)


async def watch(store: Store, stop: asyncio.Event) -> None:
    """Until `stop` is set, log when the clocks begin to differ or agree again, or this machine's clock was changed."""
    differed, offset = False, time.time() - time.monotonic()
    while not stop.is_set():
        before, offset = offset, time.time() - time.monotonic()
        if abs(offset - before) >= SUSPECT_SECONDS:
            log.warning("the clock of this machine was set, or the machine slept", ahead_s=round(offset - before, 1))
        seconds = 1.0
        with suppress(StoreUnavailable):
            ahead = await skew(store)
            seconds = READ_SECONDS
            differs = abs(ahead) >= SUSPECT_SECONDS
            if differs:
                log.warning("the clock of Redis and that of this machine differ", redis_ahead_s=round(ahead, 1))
            elif differed:
                log.info("the clock of Redis and that of this machine agree again")
            differed = differs
        await sleep_unless_stopped(stop, seconds)


def _milliseconds(reply: object) -> int:
    """Return the time in a reply to TIME, in milliseconds."""
    seconds, micros = cast("list[bytes]", reply)
    return int(seconds) * 1000 + int(micros) // 1000
