"""Counts the cost of searches, and lets searches of different clients take turns so that none blocks the event loop.

The unit of cost is one character looked at, about 60 ns. Text that is slower to look at counts as more characters.
"""

from asyncio import sleep
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from node.share.fair_semaphore import FairSemaphore

SEARCHES_READING = 2
"""Searches of one process that may look at texts or marks at the same time."""

SLICE_CHARACTERS = 4_000
"""Characters looked at without a break, in a quarter of a millisecond; then other searches and requests get a turn."""

LIGHT_CHARACTERS = 40_000
"""Characters that a search may look at before it has to rest between slices. Few searches need as many."""

REST_SECONDS = 0.001
"""Length of the rest after each further slice. Giving way for one turn of the event loop would not be enough: the
threads of the HTTP server get the interpreter from a busy event loop only every five milliseconds
(`sys.getswitchinterval`)."""


class SearchWork:
    """The cost of one client's search so far, and its place among the searches of all clients."""

    def __init__(self, client: str, readers: FairSemaphore) -> None:
        self.client = client
        self._readers = readers
        self._has_place = False
        self._unbroken = 0
        self.characters = 0
        """Characters looked at so far."""

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[None]:
        """Hold a place among the searches that read, while the block runs. Raises QueueFull."""
        await self._enter()
        try:
            yield
        finally:
            self._leave()

    async def spend(self, characters: int) -> None:
        """Count characters that were just looked at, and `give_way` after each slice. Raises QueueFull."""
        if self.count(characters):
            await self.give_way()

    def count(self, characters: int) -> bool:
        """Count characters that were just looked at. Return whether a slice is complete, so that `give_way` is due."""
        self.characters += characters
        self._unbroken += characters
        return self._unbroken >= SLICE_CHARACTERS

    async def give_way(self) -> None:
        """Let other searches and requests continue. Raises QueueFull."""
        self._unbroken = 0
        # A search keeps its place while it rests, so that expensive searches cannot use up a core, however many run.
        await sleep(REST_SECONDS if self.characters > LIGHT_CHARACTERS else 0)
        self._leave()
        await self._enter()

    async def _enter(self) -> None:
        await self._readers.enter(self.client)
        self._has_place = True

    def _leave(self) -> None:
        if self._has_place:
            self._has_place = False
            self._readers.leave(self.client)
