"""Counts what a search costs. Searches of different clients take turns, and none holds up the event loop.

The unit is a character looked at, about 60 ns. What costs more than its length counts as more characters.
"""

from asyncio import sleep
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from node.share.fair_semaphore import FairSemaphore

SEARCHES_READING = 2
"""Searches of one process that look at texts or marks at the same time."""

SLICE_CHARACTERS = 4_000
"""Characters looked at in one go, in a quarter of a millisecond; then other searches and requests have their turn."""

LIGHT_CHARACTERS = 40_000
"""Characters that a search may look at without a rest; few need as many."""

REST_SECONDS = 0.001
"""The rest after each further slice. One turn of the event loop is not enough: the threads of the HTTP server would get
the interpreter from a busy event loop only every five milliseconds (`sys.getswitchinterval`)."""


class SearchWork:
    """What one search of a client has cost, and its place among the searches of all clients."""

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
        """Count characters that were just looked at; after a slice of them let others go on. Raises QueueFull."""
        if self.count(characters):
            await self.give_way()

    def count(self, characters: int) -> bool:
        """Count characters that were just looked at. Returns whether they make a slice, after which to `give_way`."""
        self.characters += characters
        self._unbroken += characters
        return self._unbroken >= SLICE_CHARACTERS

    async def give_way(self) -> None:
        """Let others go on. Raises QueueFull."""
        self._unbroken = 0
        # A search keeps its place while it rests: however many clients search for much, they do not use up a core.
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
