"""The clock of Redis, and how far it is from that of this machine.

Times of records, lifetimes and limits are by the clock of Redis; the time in an id and the age of a signature or of an
upload URL are by that of the machine that answers. So the two must agree to a few seconds.
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
"""A difference of at least this is logged: more than synchronised clocks show, and less than does harm."""

READ_SECONDS = 300.0
"""Time between two comparisons."""


async def now_ms(store: Store, key: str = "") -> int:
    """Milliseconds since 1970 by the clock of the server that keeps `key`. Raises StoreUnavailable."""
    return _milliseconds(await store.command("TIME", key=key))


async def skew(store: Store) -> float:
    """Seconds by which the clock of Redis is ahead of this one, as far as that is certain; with several primaries, that
    of the one most off. Raises StoreUnavailable.
    """
    began = time.time()
    each = [_milliseconds(reply) / 1000 for reply in await store.everywhere("TIME")]
    ended = time.time()
    # Redis read its clock at some moment in between, which on a busy machine may be long.
    return max((theirs - min(max(theirs, began), ended) for theirs in each), key=abs)


async def watch(store: Store, stop: asyncio.Event) -> None:
    """Log when the clocks begin to differ or agree again, or that of this machine was set, until `stop` is set."""
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
    """The time in a reply to TIME."""
    seconds, micros = cast("list[bytes]", reply)
    return int(seconds) * 1000 + int(micros) // 1000
