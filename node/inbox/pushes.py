"""The push notification configs of A2A tasks (NETWORK 1). What is sent to them is made in `node.a2a.inboxes.pushes`."""

from node.common.refusal import Refused
from node.inbox.model import InboxTask, PushTarget
from node.inbox.push_store import PushStore
from node.inbox.tasks import InboxTasks

TRIES = 3
"""Attempts to add a config to a task that gets another message meanwhile."""


class InboxPushes:
    """Which webhooks are notified of which task. Whoever knows the id of a task may add and remove them.

    Every method raises StoreUnavailable.
    """

    def __init__(self, store: PushStore, tasks: InboxTasks) -> None:
        self._store = store
        self._tasks = tasks

    async def add(self, address: str, task_id: str, target: PushTarget) -> bool:
        """Notify a webhook of a task's present state and its changes; False if the task has as many as it may have.

        Raises Refused `receipt.unknown`, `store.busy`.
        """
        for _ in range(TRIES):
            added = await self._store.add(address, await self._tasks.head(address, task_id), target)
            if added != "moved":
                return added == "set"
        raise Refused("store.busy", retry_after=1)

    async def all(self, address: str, task_id: str) -> dict[str, PushTarget]:
        """The configs of a task by their ids. Raises Refused `receipt.unknown`."""
        await self._tasks.head(address, task_id)
        return await self._store.all(address, task_id)

    async def remove(self, address: str, task_id: str, name: str) -> None:
        """Remove a config; one that is gone already is no error. Raises Refused `receipt.unknown`."""
        await self._tasks.head(address, task_id)
        await self._store.remove(address, task_id, name)

    async def forget(self, address: str, task_id: str, target: PushTarget) -> None:
        """Remove a config, because its receiver wants no more, unless another one has taken its place."""
        await self._store.forget(address, task_id, target)

    async def notified_of(self, address: str, message_id: str) -> tuple[str, list[PushTarget]]:
        """The id of the task of a message that has changed, and its configs."""
        task = await self._tasks.of_message(address, message_id)
        if task is None:
            return "", []
        return task.id, list((await self._store.all_to_the_end(address, task)).values())

    async def found(self, address: str, task_id: str, name: str) -> tuple[InboxTask, PushTarget] | None:
        """A task and one of its configs; None if either is gone."""
        try:
            task = await self._tasks.get(address, task_id)
        except Refused:  # its time is over
            return None
        target = (await self._store.all(address, task_id)).get(name)
        return (task, target) if target else None

    async def expire(self) -> bool:
        """Announce the messages that have expired; whether there may be more. The worker calls it again and again."""
        return await self._store.expire()
