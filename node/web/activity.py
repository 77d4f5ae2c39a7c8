"""Reports how many bytes the process has kept for each client, and how often it has refused each, for the operator's
daily sums (`node.store.activity`). No request waits for these reports."""

from contextlib import suppress

from node.common import counters
from node.store.activity import ActivityStore
from node.store.errors import StoreUnavailable
from node.web.usage import Usage

REPORT_SECONDS = 10.0
"""Interval between two reports."""


async def report(store: ActivityStore, usage: Usage) -> None:
    """Report what has not been reported yet. If Redis cannot be reached, those figures are lost."""
    await usage.report()  # so that `noted` includes the bytes of the last second
    kept, refused = usage.noted, counters.REFUSED_CLIENTS
    sums, counts = dict(kept), dict(refused)
    kept.clear()
    refused.clear()
    with suppress(StoreUnavailable):
        await store.add("bytes", sums)
        await store.add("refused", counts)
