"""The push notification configs of A2A tasks in Redis: one hash for each task, which expires with the task.

A script that changes a message of such a task puts an `inbox.task` event into the outbox (`lua/lib/tell_push.lua`). A
message expires without a script, so each partition has a list of when those messages expire, which the worker reads.
"""

from typing import Literal, cast

import msgspec

from node.callbacks.queue import callback_forget
from node.inbox import steps
from node.inbox.model import MAX_PUSH_CONFIGS, InboxTask, PushTarget
from node.store import Store, ids, keys
from node.store.bulk import bulk_steps_reachable, reached
from node.store.decoding import code_of, fields_of

SWEEP_LIMIT = 100
"""Messages of a partition that are announced at a time."""


class PushStore:
    """Keeps, reads and drops configs, and announces that messages have expired.

    Every method raises StoreUnavailable.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def add(self, address: str, task: InboxTask, target: PushTarget) -> Literal["set", "many", "moved"]:
        """Keep a config, and announce the present state of the task to it.

        `many`: the task has MAX_PUSH_CONFIGS others; `moved`: it has another message by now.
        """
        partition = ids.partition_of(address)
        reply = await self._store.run(
            steps.inbox_push_set(
                inbox=keys.inbox(address),
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
            )
        )
        return cast('Literal["set", "many", "moved"]', code_of(reply))

    async def all(self, address: str, task_id: str) -> dict[str, PushTarget]:
        """The configs of a task by their ids."""
        return _targets(await self._store.command("HGETALL", keys.inbox_pushes(address, task_id)))

    async def all_to_the_end(self, address: str, task: InboxTask) -> dict[str, PushTarget]:
        """The same, and let them expire when the task does."""
        reading = steps.inbox_push_read(
            pushes=keys.inbox_pushes(address, task.id),
            task=keys.inbox_receipt(address, task.id),
            latest=keys.inbox_receipt(address, task.last.id),
            id=task.last.id,
        )
        return _targets(await self._store.run(reading))

    async def remove(self, address: str, task_id: str, name: str) -> None:
        """Drop a config."""
        await self._store.command("HDEL", keys.inbox_pushes(address, task_id), name)

    async def forget(self, address: str, task_id: str, target: PushTarget) -> None:
        """Drop a config, unless another one has taken its place."""
        pushes, config = keys.inbox_pushes(address, task_id), msgspec.json.encode(target)
        await self._store.run(callback_forget(entity=pushes, field=target.id, value=config))

    async def expire(self) -> bool:
        """Announce the messages that have expired, as far as they can be read; whether there may be more.

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


def _targets(found: object) -> dict[str, PushTarget]:
    targets = [msgspec.json.decode(value, type=PushTarget) for value in fields_of(found).values()]
    return {target.id: target for target in sorted(targets, key=lambda target: target.id)}
