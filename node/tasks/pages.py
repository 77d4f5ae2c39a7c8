"""Pages of the lists of contracts: those of one status, the newest first.

A list spans all partitions, so where a part of the store is out of reach, a page shows what the others hold.
"""

from asyncio import gather
from collections.abc import Sequence
from time import monotonic
from typing import NamedTuple, cast

from node.store import Store, StoreUnavailable, keys
from node.store.bulk import bulk_reachable
from node.store.decoding import fields_named
from node.store.lists import page_of
from node.store.unreadable import read_reachable
from node.tasks.offers.feed import START, OfferFeed
from node.tasks.reader import TaskReader
from node.tasks.view import BASE, LISTED, StoredTask


class ListedTasks(NamedTuple):
    """What a page is made of."""

    rows: dict[str, StoredTask]
    total: int
    """How many contracts are in the list, as far as is known."""
    next_since: str
    """Where the feed of offers ended before the list was read."""
    is_incomplete: bool
    """Whether some that belong on the page are out of reach."""


class TaskPages:
    """Reads pages."""

    def __init__(self, store: Store, contracts: TaskReader) -> None:
        self._store = store
        self._contracts = contracts
        self._feed = OfferFeed(store)

    async def read(self, status: str, limit: int, offset: int) -> ListedTasks:
        """Contracts that are listed under a status, without those that cannot be read. Raises StoreUnavailable."""
        # Before the list is read, so that what is offered in between is in the list or after this position.
        since = await self._feed.end() if status == "offered" else START
        names, total = await page_of(self._store, keys.tasks_with(status), limit, offset)
        rows, lacking = await read_reachable(names, self._read)
        return ListedTasks(rows, total - (len(names) - lacking - len(rows)), since, lacking > 0)

    async def _read(self, names: Sequence[str]) -> list[StoredTask | StoreUnavailable]:
        """What lists show of contracts; where a server is out of reach and others are not, its error as a value."""
        asked_at = monotonic()
        hashes = await bulk_reachable(self._store, (("HMGET", keys.task(name), *BASE) for name in names))
        rows = {
            name: StoredTask(0, fields_named(BASE, cast("list[bytes | None]", values)), asked_at)
            for name, values in zip(names, hashes, strict=True)
            if not isinstance(values, StoreUnavailable)
        }
        # What time changes is judged by the clock of the server that holds it, so it is read again, by a step.
        leased = [name for name, row in rows.items() if b"lease_expires_at" in row.fields or b"more" in row.fields]
        lacking = [name for name, row in rows.items() if not row.fields]
        if leased or lacking:
            judged, compacted = await gather(
                self._contracts.read_all(leased, LISTED), self._contracts.compacted(lacking, LISTED)
            )
            rows |= dict(zip(leased, judged, strict=True))
            rows |= {name: StoredTask(0, fields, asked_at) for name, fields in compacted.items()}
        return [rows.get(name) or cast("StoreUnavailable", reply) for name, reply in zip(names, hashes, strict=True)]
