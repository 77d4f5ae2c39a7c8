"""Reads compacted contracts. A large one with a head is fetched whole only if its result is asked for."""

from collections.abc import Sequence
from contextlib import suppress
from typing import cast

from node.store import Store, StoreUnavailable, keys
from node.tasks.compaction import NEAR, RESULT, head_size, unpack, unpack_head, with_head
from node.tasks.lapse import Fields


class PackedContracts:
    """Reads the compressed strings that replace contracts that are over."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, task_ids: Sequence[str], names: Sequence[bytes] = ()) -> dict[str, Fields]:
        """Return the fields `names`, or all fields, of those contracts that are compacted. Raises StoreUnavailable."""
        if not names:
            return {task_id: unpack(packed) for task_id, packed in (await self._whole(task_ids)).items()}
        found = await (self.read(task_ids) if RESULT in names else self._heads(task_ids))
        return {task_id: {name: fields[name] for name in names if name in fields} for task_id, fields in found.items()}

    async def _heads(self, task_ids: Sequence[str]) -> dict[str, Fields]:
        """Return all fields but a large result: from the head, or from a string that is short enough to have none."""
        found: dict[str, Fields] = {}
        longer: dict[str, int] = {}
        headless: list[str] = []
        for task_id, end in (await self._ends(dict.fromkeys(task_ids, NEAR))).items():
            size = head_size(end)
            if size is None:
                if len(end) < NEAR:
                    found[task_id] = unpack(end)
                else:
                    headless.append(task_id)
            elif size <= len(end):
                found[task_id] = unpack_head(end)
            else:
                longer[task_id] = size
        found |= {task_id: unpack_head(end) for task_id, end in (await self._ends(longer)).items()}
        for task_id, packed in (await self._whole(headless)).items():
            found[task_id] = unpack(packed)
            await self._mend(task_id, packed)
        return found

    async def _mend(self, task_id: str, packed: bytes) -> None:
        """Add the head to a large string of an older version, so that such a string is fetched whole only once.

        The contents stay the same, so another process may do this at the same time. XX: a removed string stays so.
        """
        if better := with_head(packed):
            with suppress(StoreUnavailable):
                await self._store.command("SET", keys.packed(task_id), better, "XX")

    async def _whole(self, task_ids: Sequence[str]) -> dict[str, bytes]:
        strings = await self._store.run_all(("GET", keys.packed(each)) for each in task_ids)
        return _there(task_ids, strings)

    async def _ends(self, sizes: dict[str, int]) -> dict[str, bytes]:
        """Return the end of each string, as many bytes of it as `sizes` says."""
        strings = await self._store.run_all(
            (("GETRANGE", keys.packed(task_id), -size, -1) for task_id, size in sizes.items())
        )
        return _there(list(sizes), strings)


def _there(task_ids: Sequence[str], strings: Sequence[object]) -> dict[str, bytes]:
    return {task_id: cast("bytes", packed) for task_id, packed in zip(task_ids, strings, strict=True) if packed}
