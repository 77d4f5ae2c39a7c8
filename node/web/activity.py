"""Reports how many bytes clients had this process keep and how often it refused them, for the operator's daily sums
(`node.store.activity`). No request waits for it."""

import asyncio
from contextlib import suppress

from node.common import counters
from node.store.activity import ActivityStore
from node.store.errors import StoreUnavailable
from node.web.usage import Usage

REPORT_SECONDS = 10.0
"""Time between two reports."""


class ActivityReports:
    """The reports of one process."""

    def __init__(self, store: ActivityStore, usage: Usage) -> None:
        self._store = store
        self._usage = usage

    async def run(self) -> None:
        """Report every REPORT_SECONDS until cancelled, and once more then."""
        try:
            while True:
                await asyncio.sleep(REPORT_SECONDS)
                await self.report()
        finally:
            await self.report()

    async def report(self) -> None:
        """Report what has not been reported yet. If Redis cannot be reached, it is dropped."""
        await self._usage.settle()  # so that the bytes of the last second are among those in `noted`
        kept, refused = self._usage.noted, counters.REFUSED_CLIENTS
        sums, counts = dict(kept), dict(refused)
        kept.clear()
        refused.clear()
        with suppress(StoreUnavailable):
            await self._store.add("bytes", sums)
            await self._store.add("refused", counts)
