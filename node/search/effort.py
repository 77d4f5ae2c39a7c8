"""What one search costs: it takes its turn among those of other clients, is counted, and never holds up the event loop.

The unit is a character that was looked at, about 60 ns. What costs more than its length counts as more of them.
"""

from asyncio import sleep
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from node.share.turns import Turns

READERS = 2
"""Searches of one process that look at something at the same time."""

SLICE = 4_000
"""Characters looked at in one go, a quarter of a millisecond: then others have their turn, searches too."""

LIGHT = 40_000
"""Characters that a search may look at without a rest; few look at so many."""

REST = 0.001
"""Seconds of rest after each slice of what goes beyond. To let others have a turn is not enough: the server's threads
would get the interpreter from a busy event loop only every five milliseconds (`sys.getswitchinterval`)."""


class Effort:
    """Of one search, for one client."""

    def __init__(self, client: str, readers: Turns) -> None:
        self._client = client
        self._readers = readers
        self._place = AsyncExitStack()
        self._unbroken = 0
        self.looked = 0
        """Characters looked at so far."""

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[None]:
        """Have a place among the searches that look at something. Raises Crowded."""
        async with self._place:
            await self._enter()
            yield

    async def spend(self, characters: int) -> None:
        """Count what was just looked at; if it was enough for one go, make place for others. Raises Crowded."""
        self.looked += characters
        self._unbroken += characters
        if self._unbroken >= SLICE:
            self._unbroken = 0
            # Who rests keeps its place: however many clients ask for much, the rest of a core is left to the others.
            await sleep(REST if self.looked > LIGHT else 0)
            await self._place.aclose()
            await self._enter()

    async def _enter(self) -> None:
        await self._place.enter_async_context(self._readers.of(self._client))
