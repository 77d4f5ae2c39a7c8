"""Waiting for the first of two tasks, so that nothing of the other is left running."""

import asyncio
from typing import Any


async def ended_before(work: asyncio.Future[Any], other: asyncio.Future[Any]) -> bool:
    """Wait until one of two tasks has ended, and cancel the other. Returns whether `work` had ended by itself.

    Both have ended, and cleaned up, when this returns or raises. What they raised is not raised here.
    """
    try:
        await asyncio.wait((work, other), return_when=asyncio.FIRST_COMPLETED)
        return work.done()
    finally:
        work.cancel()
        other.cancel()
        # `gather` waits for both even if it is itself cancelled meanwhile, unlike `wait`.
        await asyncio.gather(work, other, return_exceptions=True)
