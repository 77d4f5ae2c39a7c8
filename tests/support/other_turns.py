"""How often others have their turn while something is at work."""

import asyncio
from typing import Self


class OtherTurns:
    """A task that takes each turn it gets, for as long as the block lasts."""

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
