"""Reports how many bytes each client had this process keep, and how often it was refused, for the operator's daily sums
(`node.store.activity`). No request waits for this."""

from contextlib import suppress

from node.common import counters
from node.store.activity import ActivityStore
from node.store.errors import StoreUnavailable
from node.web.usage import Usage

REPORT_SECONDS = 10.0
"""Time between two reports."""


async def report(store: ActivityStore, usage: Usage) -> None:
    """Report what has not been reported yet. If Redis cannot be reached, that is lost."""
    await usage.report()  # so that the bytes of the last second are among those in `noted`
    kept, refused = usage.noted, counters.REFUSED_CLIENTS
    sums, counts = dict(kept), dict(refused)
    kept.clear()
    refused.clear()
    with suppress(StoreUnavailable):
        await store.add("bytes", sums)
        await store.add("refused", counts)
