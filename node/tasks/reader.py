"""Reads work contracts as of the time of reading (`lapse`), whether or not they are compacted."""

from asyncio import gather
from collections.abc import Sequence
from time import monotonic
from typing import NamedTuple, cast

from node.store import Store, StoreUnavailable, keys
from node.store.decoding import fields_named, fields_of
from node.store.lists import page_of
from node.store.long_poll import another_status, wait_for_change
from node.store.unreadable import reached, read_each, read_reachable
from node.tasks import steps
from node.tasks.lapse import JUDGED
from node.tasks.model import OVER, TaskStatus
from node.tasks.packed import PackedContracts
from node.tasks.view import BASE, CHANGING, LISTED, LISTED_BY, StoredTask


class ListedTasks(NamedTuple):
    """The contents of a page of a list."""

    rows: dict[str, StoredTask]
    total: int
    """How many contracts are in the list, as far as is known."""
    unreachable: list[str]
    """Contracts that belong on the page, but are out of reach."""


class TaskReader:
    """Reads contracts by their ids, and pages of their lists. Every method raises StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.compacted = PackedContracts(store).read
        """Reads the fields of contracts that are compacted, by id."""

    async def read(self, task_id: str, names: Sequence[bytes] = ()) -> StoredTask:
        """Return a contract with the fields `names`, or with all fields; an unknown id has none."""
        (row,) = await self.read_all([task_id], names)
        return row

    async def readable(self, task_ids: Sequence[str], names: Sequence[bytes] = ()) -> dict[str, StoredTask]:
        """Read contracts as `read_all` does, by id, without those whose records cannot be read."""
        return await read_each(task_ids, lambda some: self.read_all(some, names))

    async def read_for_lists(self, task_ids: Sequence[str]) -> dict[str, StoredTask]:
        """Read the fields LISTED_BY as `readable` does."""
        return await self.readable(task_ids, LISTED_BY)

    async def listed_reachable(
        self, task_ids: Sequence[str], names: Sequence[bytes] = BASE
    ) -> tuple[dict[str, StoredTask], list[str]]:
        """Read contracts as lists show them. Returns those that can be read, and the ids of those out of reach.

        `names` may leave out TEXTS. Raises StoreUnavailable if no server can be reached.
        """
        return await read_reachable(task_ids, lambda some: self._listed_reachable(some, names))

    async def page(self, status: str, limit: int, offset: int) -> ListedTasks:
        """Return contracts that are listed under a status, the newest first, without those that cannot be read.

        A list spans all partitions. If some partitions are out of reach, a page shows the contracts of the others.
        Raises StoreUnavailable if no server can be reached.
        """
        names, total = await page_of(self._store, keys.tasks_with(status), limit, offset)
        rows, unreachable = await self.listed_reachable(names)
        return ListedTasks(rows, total - (len(names) - len(unreachable) - len(rows)), unreachable)

    async def read_all(self, task_ids: Sequence[str], names: Sequence[bytes] = ()) -> list[StoredTask]:
        """Return contracts with the fields `names`, or with all fields.

        A result may have a megabyte, so callers that do not show it name the fields.

        If the status is among `names`, all other fields that decide it (JUDGED) must be, too.
        """
        asked_at = monotonic()
        reading = (steps.task_read(task=keys.task(each), names=names) for each in task_ids)
        replies = cast("list[tuple[int, list[bytes | None]]]", await self._store.run_all(reading))
        rows = {
            task_id: StoredTask.of(now, fields_named(names, values) if names else fields_of(values), asked_at)
            for task_id, (now, values) in zip(task_ids, replies, strict=True)
        }
        compacted = await self.compacted([task_id for task_id, row in rows.items() if not row.fields], names)
        rows |= {task_id: StoredTask(rows[task_id].now, fields, asked_at) for task_id, fields in compacted.items()}
        return [rows[task_id] for task_id in task_ids]

    async def wait(
        self, task_id: str, seconds: float, known: TaskStatus | None, names: Sequence[bytes] = ()
    ) -> StoredTask:
        """Read a contract as `read` does, as soon as its status is another than `known`, or when the time is up.

        After each change only the JUDGED fields are read; the fields `names` are read once, at the end.
        """
        if seconds > 0:
            is_news = another_status(known, settled=("failed",), last=OVER)
            await wait_for_change(
                self._store.wakeups,
                keys.task(task_id),
                seconds,
                lambda: self.read(task_id, JUDGED),
                is_new=lambda row: not row.is_contract or is_news(row.status),
                lasts=lambda row: row.lasts,
            )
        return await self.read(task_id, names)

    async def _listed_reachable(
        self, task_ids: Sequence[str], names: Sequence[bytes]
    ) -> list[StoredTask | StoreUnavailable]:
        """Return contracts as lists show them, or the error of a server that is out of reach while others are not."""
        asked_at = monotonic()
        hashes = await self._store.run_reachable(("HMGET", keys.task(each), *names) for each in task_ids)
        rows = {
            task_id: StoredTask(0, fields_named(names, cast("list[bytes | None]", values)), asked_at)
            for task_id, values in reached(task_ids, hashes)
        }
        # Contracts that time alone may change are judged by the clock of their server, so a step reads them again.
        leased = [
            task_id for task_id, row in rows.items() if b"lease_expires_at" in row.fields or b"more" in row.fields
        ]
        without_hash = [task_id for task_id, row in rows.items() if not row.fields]
        if leased or without_hash:
            judged, compacted = await gather(self.read_all(leased, CHANGING), self.compacted(without_hash, LISTED))
            rows |= {task_id: row.with_texts_of(rows[task_id]) for task_id, row in zip(leased, judged, strict=True)}
            rows |= {task_id: StoredTask(0, fields, asked_at) for task_id, fields in compacted.items()}
        replies = zip(task_ids, hashes, strict=True)
        return [rows.get(task_id) or cast("StoreUnavailable", reply) for task_id, reply in replies]
