"""How many turns of the event loop other tasks get while something is at work."""

import asyncio
from typing import Self


class OtherTurns:
    """Counts the turns of the event loop that another task gets for as long as the block lasts."""

    count = 0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._take())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()

    async def _take(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)
