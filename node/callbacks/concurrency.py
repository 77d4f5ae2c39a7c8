"""How many attempts a worker makes at the same time, and for whom: nobody waits for somebody else's slow receiver.

A slow receiver keeps an attempt, and so a place, for ten seconds. That is why an attempt waits in this order: for a
place among those of its own publisher, for one of the few of its host and domain, and only then among all others.
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
"""Attempts at the same time. An attempt mostly waits, and costs a connection."""

PLACES_EACH_SITE = 16
PLACES_EACH_DOMAIN = 16
PLACES_EACH_HOST = 4
PLACES_EACH_SITE_AND_DOMAIN = 3
"""Fewer than a host has, so that one publisher leaves a place at a host that others call, too."""

TURN_SECONDS = 4.0
"""How long a callback waits here. After that it waits in Redis, where any worker may take it. Together with the
attempt itself this is less than the time for which it is hidden there (`queue.HIDDEN_MS`), and less than a probe may
take (`breaker.PROBE_MS`)."""

BUSY_MS = (1000, 3000)
"""Bounds of the random pause before another try for a callback that got no place."""


class Concurrency:
    """The places for attempts of one worker."""

    def __init__(self) -> None:
        self._pairs = FairSemaphore(sys.maxsize, each=PLACES_EACH_SITE_AND_DOMAIN)
        self._sites = FairSemaphore(sys.maxsize, each=PLACES_EACH_SITE)
        self._hosts = FairSemaphore(sys.maxsize, each=PLACES_EACH_HOST)
        self._domains = FairSemaphore(sys.maxsize, each=PLACES_EACH_DOMAIN)
        self._all = FairSemaphore(PLACES, each=PLACES)

    @asynccontextmanager
    async def of(self, site: str, host: str) -> AsyncGenerator[None]:
        """A place for an attempt on behalf of a site, for as long as the block runs. Raises NotNow."""
        domain = registrable(host)
        # An attempt that waits for one of these holds those before it. In this order that takes nothing from others:
        # first come the places of its own publisher, then those of its receiver, and last the places of all.
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
