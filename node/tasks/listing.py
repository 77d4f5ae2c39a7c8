"""Pages of contracts for readers: as records, or as JSON whose encoded rows are reused until they change."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from node.common.prepared_rows import PreparedRows
from node.common.refusal import Invalid, Issue
from node.common.shared_reads import SharedReads
from node.common.unreadable import show_each
from node.store.errors import StoreUnavailable
from node.tasks.lapse import Fields
from node.tasks.model import Task, TaskPage, TaskPageQuery
from node.tasks.offers.feed import OfferFeed
from node.tasks.offers.list import AddCost, OfferList, since_of
from node.tasks.store import TaskStore
from node.tasks.view import StoredTask, task_of


def _uncounted(size: int) -> None:
    """Charge nobody: the `add_cost` of a read that many requests share, or that no API request asked for."""


class TaskListing:
    """Answers GET /api/v1/tasks."""

    def __init__(self, feed: OfferFeed, store: TaskStore, base: str) -> None:
        """`base`: URL of a contract, without its id."""
        self._feed = feed
        self._offered = OfferList(feed, store)
        self._store = store
        self._base = base
        self._rows = PreparedRows(self._of_fields)
        self._shared = SharedReads(self._page_json)

    async def page(self, query: TaskPageQuery) -> TaskPage:
        """Return a page of contracts of one status, without their results. Raises Invalid, StoreUnavailable."""
        return await self._page(query, self.record)

    async def page_json(self, query: TaskPageQuery, add_cost: AddCost) -> bytes:
        """Return `page` as JSON. Simultaneous requests for the same page share one read, unless they wait.

        For a request that waits, `add_cost` is told what it costs besides its answer.
        """
        return await (self._page_json(query, add_cost) if query.wait else self._shared.get(query))

    async def _page_json(self, query: TaskPageQuery, add_cost: AddCost = _uncounted) -> bytes:
        page = await self._page(query, lambda task_id, row: self._rows.of(task_id, row.fields), add_cost)
        return msgspec.json.encode(page)

    def record(self, task_id: str, row: StoredTask) -> Task:
        """Return a contract as lists show it."""
        return task_of(task_id, self._base + task_id, row, whole=False)

    async def _page(
        self, query: TaskPageQuery, show: Callable[[str, StoredTask], Any], add_cost: AddCost = _uncounted
    ) -> TaskPage:
        _require_offers(query)
        if query.status == "offered" and (query.wait or query.since or query.skill or query.publisher_id):
            some = await self._offered.page(query, add_cost)
            tasks = list(show_each(some.rows.items(), show).values())
            lacks, total = some.is_incomplete or msgspec.UNSET, some.total - (len(some.rows) - len(tasks))
            return TaskPage(tasks, total, query.limit, query.offset, some.next_since, lacks)
        # Read before the list, so that a contract offered in between is in the list or after this position.
        end = await self._feed.end() if query.status == "offered" else None
        found, total, unreachable = await self._store.page(query.status, query.limit, query.offset)
        standing = {task_id: row for task_id, row in found.items() if row.is_in(query.status)}
        if len(standing) < len(found):
            # The others have left this status: the list lagged behind, and is corrected now.
            with suppress(StoreUnavailable):
                await self._store.project({task_id: row for task_id, row in found.items() if task_id not in standing})
        tasks = list(show_each(standing.items(), show).values())
        total -= len(found) - len(tasks)
        since = since_of(end, unreachable) if end else msgspec.UNSET
        return TaskPage(tasks, total, query.limit, query.offset, since, bool(unreachable) or msgspec.UNSET)

    def _of_fields(self, task_id: str, fields: Fields) -> Task:
        return self.record(task_id, StoredTask(0, fields))


def _require_offers(query: TaskPageQuery) -> None:
    """Raise Invalid for a filter of offers on another list: if it were ignored, the whole list would seem to match."""
    given = [name for name in ("since", "skill", "publisher_id") if getattr(query, name) is not None]
    if given and query.status != "offered":
        raise Invalid([Issue(("query", name), "can only be used with status=offered", "value_error") for name in given])
