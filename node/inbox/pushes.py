"""The push notification configs of A2A tasks (NETWORK 1): one hash for each task, which expires with the task.

A script that changes a message of such a task adds an `inbox.task` event to the outbox (`lua/lib/announce_push.lua`).
No script runs when a message expires, so each partition lists when such messages expire, and the worker reads the list.
`node.a2a.inboxes.pushes` makes what is sent to the receivers.
"""

from typing import cast

import msgspec

from node.callbacks.queue import callback_forget
from node.common.refusal import Refused
from node.inbox import steps
from node.inbox.model import MAX_PUSH_CONFIGS, InboxTask, PushTarget
from node.inbox.tasks import InboxTasks
from node.store import Store, ids, keys
from node.store.decoding import code_of, fields_of
from node.store.unreadable import reached

TRIES = 3
"""Maximum attempts to add a config to a task. An attempt fails if the task gets another message meanwhile."""

SWEEP_LIMIT = 100
"""Maximum number of expired messages of a partition that are announced at a time."""


class InboxPushes:
    """Records which webhooks are notified of which task. Whoever knows the id of a task may add and remove webhooks.

    Every method raises StoreUnavailable.
    """

    def __init__(self, store: Store, tasks: InboxTasks) -> None:
        self._store = store
        self._tasks = tasks

    async def add(self, address: str, task_id: str, target: PushTarget) -> bool:
        """Notify a webhook of a task's present state and its changes. Returns False if the task has no room for it.

        Raises Refused `receipt.unknown`, `store.busy`.
        """
        partition = ids.partition_of(address)
        for _ in range(TRIES):
            task = await self._tasks.head(address, task_id)
            reply = await self._store.run(
                steps.inbox_push_set(
                    inbox=keys.inbox(address),
                    pushes=keys.inbox_pushes(address, task_id),
                    task=keys.inbox_receipt(address, task_id),
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
            if (added := code_of(reply)) != "moved":
                return added == "set"
        raise Refused("store.busy", retry_after=1)

    async def all(self, address: str, task_id: str) -> dict[str, PushTarget]:
        """Return the configs of a task by their ids. Raises Refused `receipt.unknown`."""
        await self._tasks.head(address, task_id)
        return await self._all(address, task_id)

    async def remove(self, address: str, task_id: str, name: str) -> None:
        """Remove a config, if it is there. Raises Refused `receipt.unknown`."""
        await self._tasks.head(address, task_id)
        await self._store.command("HDEL", keys.inbox_pushes(address, task_id), name)

    async def forget(self, address: str, task_id: str, target: PushTarget) -> None:
        """Remove a config whose receiver wants no more notifications, unless it was replaced meanwhile."""
        pushes, config = keys.inbox_pushes(address, task_id), msgspec.json.encode(target)
        await self._store.run(callback_forget(entity=pushes, field=target.id, value=config))

    async def notified_of(self, address: str, message_id: str) -> tuple[str, list[PushTarget]]:
        """Return the task id of a changed message, and the task's configs, which then expire with the task.

        Returns an empty id if the message belongs to no task.
        """
        task = await self._tasks.of_message(address, message_id)
        if task is None:
            return "", []
        reading = steps.inbox_push_read(
            pushes=keys.inbox_pushes(address, task.id),
            task=keys.inbox_receipt(address, task.id),
            latest=keys.inbox_receipt(address, task.last.id),
            id=task.last.id,
        )
        return task.id, list(_targets(await self._store.run(reading)).values())

    async def found(self, address: str, task_id: str, name: str) -> tuple[InboxTask, PushTarget] | None:
        """Return a task and one of its configs; None if either is gone."""
        try:
            task = await self._tasks.get(address, task_id)
        except Refused:  # the task has expired
            return None
        target = (await self._all(address, task_id)).get(name)
        return (task, target) if target else None

    async def expire(self) -> bool:
        """Announce expired messages of all partitions that can be reached. Returns whether there may be more.

        The worker calls this repeatedly. Raises StoreUnavailable if no server can be reached.
        """
        expiring = [
            steps.inbox_push_expire(
                push_ends=keys.inbox_push_ends(partition), events=keys.events(partition), limit=SWEEP_LIMIT
            )
            for partition in range(ids.PARTITIONS)
        ]
        announced = reached(expiring, await self._store.run_reachable(expiring))
        return any(cast("list[int]", reply)[1] == SWEEP_LIMIT for _, reply in announced)

    async def _all(self, address: str, task_id: str) -> dict[str, PushTarget]:
        return _targets(await self._store.command("HGETALL", keys.inbox_pushes(address, task_id)))


def _targets(found: object) -> dict[str, PushTarget]:
    targets = [msgspec.json.decode(value, type=PushTarget) for value in fields_of(found).values()]
    return {target.id: target for target in sorted(targets, key=lambda target: target.id)}
