"""Whom the changes of A2A tasks are told, in Redis: a hash a task, which ends with it.

A step that changes a followed message announces `inbox.task` (`lua/lib/tell_push.lua`). That a message expires is no
step: a list in each partition has the times, and the worker looks there.
"""

import math
from typing import Literal, cast

import msgspec

from node.inbox import steps
from node.inbox.model import MAX_PUSH_CONFIGS, InboxTask, PushTarget
from node.store import Store, ids, keys
from node.store.bulk import bulk, bulk_steps_reachable, reached
from node.store.decoding import code_of, fields_of

SWEEP_LIMIT = 100
"""Messages of a partition that are told at a time."""


class PushStore:
    """Keeps, reads and drops configs, and tells of messages that have expired."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def add(self, address: str, task: InboxTask, target: PushTarget) -> Literal["set", "many", "moved"]:
        """Tell the changes of a task from now on, and how it stands.

        `many`: MAX_PUSH_CONFIGS others are told; `moved`: it has another message by now. Raises StoreUnavailable.
        """
        partition = ids.partition_of(address)
        reply = await self._store.run(
            steps.inbox_push_set(
                pushes=keys.inbox_pushes(address, task.id),
                task=keys.inbox_receipt(address, task.id),
                latest=keys.inbox_receipt(address, task.last.id),
                push_ends=keys.inbox_push_ends(partition),
                events=keys.events(partition),
                address=address,
                id=task.last.id,
                name=target.id,
                config=msgspec.json.encode(target),
                most=MAX_PUSH_CONFIGS,
                held=int(not math.isinf(task.lasts)),
            )
        )
        return cast('Literal["set", "many", "moved"]', code_of(reply))

    async def all(self, address: str, task_id: str) -> dict[str, PushTarget]:
        """Those of a task, by their names. Raises StoreUnavailable."""
        [found] = await bulk(self._store, [("HGETALL", keys.inbox_pushes(address, task_id))])
        targets = [msgspec.json.decode(value, type=PushTarget) for value in fields_of(found).values()]
        return {target.id: target for target in sorted(targets, key=lambda target: target.id)}

    async def remove(self, address: str, task_id: str, name: str) -> None:
        """Tell one no more. Raises StoreUnavailable."""
        await self._store.command("HDEL", keys.inbox_pushes(address, task_id), name)

    async def end_with(self, address: str, task: InboxTask) -> None:
        """Let them end when the task does. Raises StoreUnavailable."""
        ends_at = await self._store.command("PEXPIRETIME", keys.inbox_receipt(address, task.last.id))
        if cast("int", ends_at) > 0:
            await self._store.command("PEXPIREAT", keys.inbox_pushes(address, task.id), cast("int", ends_at))

    async def expire(self) -> bool:
        """Tell of the messages that have expired, of those that can be read; whether there may be more.

        Raises StoreUnavailable if none can.
        """
        telling = [
            steps.inbox_push_expire(
                push_ends=keys.inbox_push_ends(partition), events=keys.events(partition), limit=SWEEP_LIMIT
            )
            for partition in range(ids.PARTITIONS)
        ]
        told = reached(telling, await bulk_steps_reachable(self._store, telling))
        return any(cast("list[int]", reply)[1] == SWEEP_LIMIT for _, reply in told)
