"""How many attempts a worker makes at the same time, and for whom: nobody waits for somebody else's slow receiver.

A slow receiver occupies an attempt, and so a place, for ten seconds. Therefore an attempt first waits for a place among
those of its own publisher, then for one of the few places of its host and domain, and only then for one of the places
that all attempts share.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from random import randint

from node.callbacks.attempt import NotNow
from node.callbacks.owners import registrable
from node.share.fair_semaphore import FairSemaphore, QueueFull

PLACES = 100
"""Attempts at the same time. An attempt mostly waits, and costs one connection."""

PLACES_EACH_SITE = 16
PLACES_EACH_DOMAIN = 16
PLACES_EACH_HOST = 4
PLACES_EACH_SITE_AND_DOMAIN = 3
"""Fewer than PLACES_EACH_HOST, so that one site leaves a place at a host that other sites call, too."""

TURN_SECONDS = 4.0
"""Longest wait of a callback for its places, in seconds. After that it waits in Redis, where any worker may take it.
This wait and the attempt together are shorter than the callback is hidden there (`queue.HIDDEN_MS`), and shorter than a
probe may take (`breaker.PROBE_MS`)."""

BUSY_MS = (1000, 3000)
"""Bounds of the random pause, in milliseconds, before another try for a callback that got no place."""


class Concurrency:
    """The places for the attempts of one worker."""

    def __init__(self) -> None:
        self._pairs = FairSemaphore(sys.maxsize, each=PLACES_EACH_SITE_AND_DOMAIN)
        self._sites = FairSemaphore(sys.maxsize, each=PLACES_EACH_SITE)
        self._hosts = FairSemaphore(sys.maxsize, each=PLACES_EACH_HOST)
        self._domains = FairSemaphore(sys.maxsize, each=PLACES_EACH_DOMAIN)
        self._all = FairSemaphore(PLACES, each=PLACES)

    @asynccontextmanager
    async def of(self, site: str, host: str) -> AsyncGenerator[None]:
        """Hold a place for an attempt on behalf of a site while the block runs. Raises NotNow."""
        domain = registrable(host)
        # An attempt that waits for one of these already holds those before it. In this order it takes nothing from
        # others: the places of its own publisher come first, then those of its receiver, and last those that all
        # attempts share.
        wanted = (
            (self._pairs, f"{site} {domain}"),
            (self._sites, site),
            (self._hosts, host),
            (self._domains, domain),
            (self._all, site),
        )
        async with AsyncExitStack() as places:
            try:
                async with asyncio.timeout(TURN_SECONDS):
                    for turns, key in wanted:
                        await places.enter_async_context(turns.of(key))
            except (TimeoutError, QueueFull) as error:
                raise NotNow(randint(*BUSY_MS)) from error
            yield
