"""The list of offers as those read it who look for work: filtered, from where they were, and waiting for more."""

from collections.abc import Sequence

from node.store.keys import OFFERS
from node.store.long_poll import wait_for_change
from node.tasks.model import TaskPageQuery
from node.tasks.offers import Offer, OfferFeed
from node.tasks.store import TaskStore
from node.tasks.view import StoredTask

FILTERED = 1000
"""Offers that a filter looks at, the newest."""


class OfferRows:
    """Some offers, and where to go on."""

    def __init__(self, rows: dict[str, StoredTask], total: int, next_since: str, *, is_incomplete: bool) -> None:
        self.rows = rows
        self.total = total
        self.next_since = next_since
        self.is_incomplete = is_incomplete


class OfferList:
    """Answers GET /api/v1/tasks?status=offered with more than a page of it."""

    def __init__(self, feed: OfferFeed, store: TaskStore) -> None:
        self._feed = feed
        self._store = store

    async def page(self, query: TaskPageQuery) -> OfferRows:
        """What the query asks for; as soon as there is something, if it waits. Raises StoreUnavailable."""
        return await wait_for_change(
            self._feed.wakeups, OFFERS, query.wait, lambda: self._read(query), lambda found: bool(found.rows)
        )

    async def _read(self, query: TaskPageQuery) -> OfferRows:
        return await (self._listed(query) if query.since is None else self._since(query, query.since))

    async def _listed(self, query: TaskPageQuery) -> OfferRows:
        since = await self._feed.end()  # before the list is read, so that nothing is missed in between
        offers, is_incomplete = await self._feed.listed(0, FILTERED)
        found = [offer.id for offer in offers if _fits(offer, query)]
        rows, lacks = await self._offered(found[query.offset : query.offset + query.limit])
        return OfferRows(rows, len(found), since, is_incomplete=is_incomplete or lacks)

    async def _since(self, query: TaskPageQuery, since: str) -> OfferRows:
        fitting: list[str] = []
        for entry, offer in await self._feed.after(since):
            if len(fitting) == query.limit:
                break
            since = entry
            if _fits(offer, query):
                fitting.append(offer.id)
        rows, lacks = await self._offered(fitting)
        return OfferRows(rows, len(rows), since, is_incomplete=lacks)

    async def _offered(self, task_ids: Sequence[str]) -> tuple[dict[str, StoredTask], bool]:
        """Those of the contracts that are on offer, and whether some could not be read."""
        rows = await self._store.listed_reachable(task_ids)
        offered = {task_id: row for task_id, row in rows.items() if row.is_contract and row.status == "offered"}
        return offered, len(rows) < len(set(task_ids))


def _fits(offer: Offer, query: TaskPageQuery) -> bool:
    asked = query.skill is None or query.skill in offer.skills
    return asked and query.publisher_id in (None, offer.publisher_id)
