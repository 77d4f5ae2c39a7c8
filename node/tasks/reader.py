"""Reads work contracts, as they are at the time of reading (`clock`), whether or not they are compacted."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import cast

from node.store import Store, StoreUnavailable, keys
from node.store.bulk import bulk_reachable, bulk_steps
from node.store.decoding import fields_named, fields_of
from node.store.long_poll import wait_for_change
from node.store.unreadable import read_each
from node.tasks import steps
from node.tasks.clock import JUDGED
from node.tasks.packed import PackedContracts
from node.tasks.view import BASE, LISTED, StoredTask


class TaskReader:
    """Reads contracts by their ids."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.compacted = PackedContracts(store).read
        """Fields of contracts that are compacted, by id."""

    async def read(self, task_id: str, names: Sequence[bytes] = ()) -> StoredTask:
        """These fields of a contract, or all; none for an unknown id. Raises StoreUnavailable."""
        (row,) = await self.read_all([task_id], names)
        return row

    async def listed(self, task_ids: Sequence[str]) -> dict[str, StoredTask]:
        """What lists show of contracts, without those that cannot be read at all. Raises StoreUnavailable."""
        return await read_each(task_ids, self._listed)

    async def listed_reachable(self, task_ids: Sequence[str]) -> tuple[dict[str, StoredTask], bool]:
        """`listed`, of those contracts that are in reach now, and whether some are not.

        Raises StoreUnavailable if no server is there.
        """
        with suppress(StoreUnavailable):
            return await self.listed(task_ids), False
        found = await bulk_reachable(self._store, (("EXISTS", keys.task(each)) for each in task_ids))
        there = [each for each, reply in zip(task_ids, found, strict=True) if not isinstance(reply, StoreUnavailable)]
        return await self.listed(there), len(there) < len(task_ids)

    async def read_all(self, task_ids: Sequence[str], names: Sequence[bytes] = ()) -> list[StoredTask]:
        """These fields of contracts, or all: a result may have a megabyte, so whoever does not show it names fields.

        `names` with the status must have all fields that it is judged by, too. Raises StoreUnavailable.
        """
        asked_at = monotonic()
        reading = (steps.task_read(task=keys.task(each), names=names) for each in task_ids)
        replies = cast("list[tuple[int, list[bytes | None]]]", await bulk_steps(self._store, reading))
        rows = {
            task_id: StoredTask.of(now, fields_named(names, values) if names else fields_of(values), asked_at)
            for task_id, (now, values) in zip(task_ids, replies, strict=True)
        }
        compacted = await self.compacted([task_id for task_id, row in rows.items() if not row.fields], names)
        rows |= {task_id: StoredTask(rows[task_id].now, fields, asked_at) for task_id, fields in compacted.items()}
        return [rows[task_id] for task_id in task_ids]

    async def wait(
        self, task_id: str, seconds: float, is_new: Callable[[StoredTask], bool], names: Sequence[bytes] = ()
    ) -> StoredTask:
        """These fields of a contract, or all, as soon as it is new, or once the time is over.

        Only what it is judged by is read at each change, and the rest once. Raises StoreUnavailable.
        """
        if seconds > 0:
            await wait_for_change(
                self._store.wakeups,
                keys.task(task_id),
                seconds,
                lambda: self.read(task_id, JUDGED),
                is_new,
                lasts=lambda row: row.lasts,
            )
        return await self.read(task_id, names)

    async def _listed(self, task_ids: Sequence[str]) -> list[StoredTask]:
        rows = dict(zip(task_ids, await self.read_all(task_ids, BASE), strict=True))
        more = [task_id for task_id, row in rows.items() if b"more" in row.fields]
        rows |= dict(zip(more, await self.read_all(more, LISTED), strict=True))
        return [rows[task_id] for task_id in task_ids]
