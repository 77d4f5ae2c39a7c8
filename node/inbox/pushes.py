"""Whom the changes of A2A tasks are told (NETWORK 1). What they are told is the agent's to say."""

from node.common.refusal import Refused
from node.inbox.model import InboxTask, PushTarget
from node.inbox.push_store import PushStore
from node.inbox.tasks import InboxTasks

TRIES = 3
"""To tell of a task that gets another message meanwhile."""


class InboxPushes:
    """Who is told of which task. Whoever knows the id of a task has a right to that."""

    def __init__(self, store: PushStore, tasks: InboxTasks) -> None:
        self._store = store
        self._tasks = tasks

    async def add(self, address: str, task_id: str, target: PushTarget) -> bool:
        """Tell how a task stands, and what changes; False if as many others are told as may be.

        Raises Refused `receipt.unknown`, `store.busy`, StoreUnavailable.
        """
        for _ in range(TRIES):
            added = await self._store.add(address, await self._tasks.get(address, task_id), target)
            if added != "moved":
                return added == "set"
        raise Refused("store.busy", retry_after=1)

    async def all(self, address: str, task_id: str) -> dict[str, PushTarget]:
        """Those of a task by their names. Raises Refused `receipt.unknown`, StoreUnavailable."""
        await self._tasks.get(address, task_id)
        return await self._store.all(address, task_id)

    async def remove(self, address: str, task_id: str, name: str) -> None:
        """Tell one no more; also if it was told no more before. Raises Refused `receipt.unknown`, StoreUnavailable."""
        await self._tasks.get(address, task_id)
        await self._store.remove(address, task_id, name)

    async def told_of(self, address: str, message_id: str) -> tuple[str, list[PushTarget]]:
        """The id of the task of a message that has changed, and who is told. Raises StoreUnavailable."""
        task = await self._tasks.of_message(address, message_id)
        if task is None:
            return "", []
        await self._store.end_with(address, task)
        return task.id, list((await self._store.all(address, task.id)).values())

    async def found(self, address: str, task_id: str, name: str) -> tuple[InboxTask, PushTarget] | None:
        """A task, and one who is told of it; None if one of them is gone. Raises StoreUnavailable."""
        try:
            task = await self._tasks.get(address, task_id)
        except Refused:  # its time is over
            return None
        target = (await self._store.all(address, task_id)).get(name)
        return (task, target) if target else None

    async def expire(self) -> bool:
        """Tell of the messages that have expired; whether there may be more. The worker asks all the time.

        Raises StoreUnavailable.
        """
        return await self._store.expire()
