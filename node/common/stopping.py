"""The wait between two rounds of a loop that runs until its process stops."""

import asyncio
from contextlib import suppress


async def sleep_unless_stopped(stop: asyncio.Event, seconds: float) -> None:
    """Return after `seconds`, or as soon as `stop` is set."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
