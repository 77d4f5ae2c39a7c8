"""Waits for the first of two tasks to end, and cancels the other."""

import asyncio
from typing import Any


async def ended_before(work: asyncio.Future[Any], other: asyncio.Future[Any]) -> bool:
    """Wait until one of two tasks has ended, and cancel the other. Returns whether `work` ended by itself.

    When this returns or raises, both tasks have ended and cleaned up. Their own exceptions are not raised here.
    """
    try:
        await asyncio.wait((work, other), return_when=asyncio.FIRST_COMPLETED)
        return work.done()
    finally:
        work.cancel()
        other.cancel()
        # Unlike `wait`, `gather` waits for both tasks even if it is itself cancelled meanwhile.
        await asyncio.gather(work, other, return_exceptions=True)
