"""What one search costs: it takes its turn among those of other clients, is counted, and never holds up the event loop.

The unit is a character that was looked at, about 60 ns. What costs more than its length counts as more of them.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from node.share.turns import Turns

SLICE = 8_000
"""Characters looked at between two turns for other requests: half a millisecond."""

READERS = 2
"""Searches of one process that look at something at the same time: between two looks of the event loop at its sockets,
each may have a slice."""


class Effort:
    """Of one search, for one client."""

    def __init__(self, client: str, readers: Turns) -> None:
        self._client = client
        self._readers = readers
        self._unbroken = 0
        self.looked = 0
        """Characters looked at so far."""

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[None]:
        """Be one of the searches that look at something; others of the same client wait for it. Raises Crowded."""
        async with self._readers.of(self._client):
            yield

    async def spend(self, characters: int) -> None:
        """Count what was just looked at, and let others have a turn if it was enough for one."""
        self.looked += characters
        self._unbroken += characters
        if self._unbroken >= SLICE:
            self._unbroken = 0
            await asyncio.sleep(0)
