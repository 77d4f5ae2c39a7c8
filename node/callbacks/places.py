"""The places for attempts in one worker: given in turn, so that nobody waits for somebody else's receiver.

A receiver that is slow holds a place for ten seconds. So whoever asks for many attempts first waits for itself, and
then for the few that one host and one domain have; only then does it stand in line with all others.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from random import randint

from node.callbacks.breaker import NotNow
from node.callbacks.owners import registrable
from node.share.turns import Crowded, Turns

PLACES = 100
"""Attempts at a time: an attempt mostly waits, and costs a connection."""

PLACES_EACH_SITE = 16
PLACES_EACH_DOMAIN = 16
PLACES_EACH_HOST = 4
PLACES_EACH_SITE_AND_DOMAIN = 3
"""Fewer than those of a host: one publisher leaves a place on a host that it shares with others."""

PATIENCE = 4.0
"""Seconds that a callback waits for its turn here; then it waits in Redis, where any worker finds it. With the attempt
behind it, less than the time for which it is hidden there, and than that of a probe (`breaker.PROBE_MS`)."""


BUSY_MS = (1000, 3000)
"""Until the next look at a callback for which there was no place."""


class Places:
    """Who may have how many of them."""

    def __init__(self) -> None:
        self._own = Turns(sys.maxsize, each=PLACES_EACH_SITE_AND_DOMAIN)
        self._sites = Turns(sys.maxsize, each=PLACES_EACH_SITE)
        self._hosts = Turns(sys.maxsize, each=PLACES_EACH_HOST)
        self._domains = Turns(sys.maxsize, each=PLACES_EACH_DOMAIN)
        self._all = Turns(PLACES, each=PLACES)

    @asynccontextmanager
    async def of(self, site: str, host: str) -> AsyncGenerator[None]:
        """Hold a place for an attempt on behalf of a site while the block runs. Raises NotNow."""
        domain = registrable(host)
        # In this order, whoever waits holds nothing that others could use: its own places first, then those of the
        # receiver, of which it may have only some.
        wanted = (
            (self._own, f"{site} {domain}"),
            (self._sites, site),
            (self._hosts, host),
            (self._domains, domain),
            (self._all, site),
        )
        async with AsyncExitStack() as places:
            try:
                async with asyncio.timeout(PATIENCE):
                    for turns, key in wanted:
                        await places.enter_async_context(turns.of(key))
            except (TimeoutError, Crowded) as error:
                raise NotNow(randint(*BUSY_MS)) from error
            yield
