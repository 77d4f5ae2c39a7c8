"""Tells the operator's sums of `node.store.activity` what clients asked of this process: behind the requests."""

import asyncio
from contextlib import suppress

from node.common import counters
from node.store.activity import ActivityStore
from node.store.errors import StoreUnavailable
from node.web.usage import Usage

REPORT_SECONDS = 10.0
"""Between two reports: nobody waits for them."""


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
        """Report all that is not reported. Without Redis it is dropped."""
        await self._usage.settle()  # so that all that was kept is told of
        kept, refused = self._usage.told, counters.REFUSED_CLIENTS
        sums, counts = dict(kept), dict(refused)
        kept.clear()
        refused.clear()
        with suppress(StoreUnavailable):
            await self._store.add("bytes", sums)
            await self._store.add("refused", counts)
