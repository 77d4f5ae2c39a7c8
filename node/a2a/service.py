"""A2A messages to the node: each is logged under its context and acknowledged as a completed task (SPEC 4.2)."""

from typing import Any

import msgspec

from node.a2a.model import (
    A2ATask,
    Artifact,
    ListQuery,
    Message,
    Part,
    ReceivedMessage,
    SendMessageResponse,
    Status,
    TaskList,
)
from node.a2a.query_checks import includes, listed, oldest_wanted, wrong_token
from node.a2a.refusal import A2AError
from node.a2a.store import Fields, MessageStore
from node.common.cohort import next_stage
from node.common.refusal import Invalid
from node.common.timestamps import milliseconds, timestamp
from node.common.unreadable import show_each
from node.config import Settings
from node.store import ids
from node.store.idempotency import IdempotencyKey
from node.store.limits import RateLimit
from node.text.lines import require_english

_MESSAGE = msgspec.json.Decoder(Message)


class Messages:
    """The service behind message:send and the tasks that it creates. Every method raises StoreUnavailable."""

    def __init__(self, store: MessageStore, settings: Settings) -> None:
        self._store = store
        self._node_id = settings.node_id

    async def send(
        self, received: ReceivedMessage, rate: RateLimit, idempotency: IdempotencyKey | None
    ) -> tuple[SendMessageResponse, bool]:
        """Log a message and acknowledge it as a completed task. Also returns whether the request was a repeat.

        Raises A2AError, Invalid, Refused `language.not_english`, `limit.exceeded`, `idempotency.conflict`.
        """
        message = received.message
        require_english(received.text_field, received.text)
        await next_stage()
        if message.task_id is not None:
            await self.check_task(message.task_id, message.context_id)
        # A new context is in the client's partition, so that one step can count the limit and log the message.
        context_id = message.context_id or ids.unlisted_id(ids.home_of(rate.client))
        logged = msgspec.json.encode(msgspec.structs.replace(message, context_id=context_id))
        is_new = message.context_id is None
        task_id, created_at = await self._store.accept(rate, context_id, logged, idempotency, is_new=is_new)
        if created_at is None:
            earlier = await self.get(task_id, received.history_length)
            if earlier is None:  # an Idempotency-Key may outlive the task that it created
                raise A2AError(
                    "TASK_NOT_FOUND",
                    f"The task {task_id} of this Idempotency-Key is gone; use a new key",
                    taskId=task_id,
                )
            return SendMessageResponse(task=earlier), True
        task = self._task(task_id, context_id, created_at, message, received.history_length)
        return SendMessageResponse(task=task), False

    async def check_task(self, task_id: str, context_id: str | None) -> None:
        """Refuse a message that names a task, since no task takes further messages.

        Always raises: Invalid if the task belongs to another context, else A2AError.
        """
        fields = await self._store.read(task_id, said=False) if ids.is_id(task_id) else {}
        if not fields:
            raise A2AError("TASK_NOT_FOUND", f"The task {task_id} does not exist", taskId=task_id)
        if context_id is not None and context_id != fields.get(b"context_id", task_id.encode()).decode():
            raise Invalid.field("body", "message", "contextId", msg="Must be the contextId of the task, or be omitted")
        raise A2AError(
            "UNSUPPORTED_OPERATION", f"The task {task_id} takes no further messages; omit taskId", taskId=task_id
        )

    async def get(self, task_id: str, history_length: int | None = None) -> A2ATask | None:
        """Return a message task; None if no message task has that id."""
        fields = await self._store.read(task_id, said=history_length != 0) if ids.is_id(task_id) else {}
        return self._read(task_id, fields, history_length) if is_message(fields) else None

    async def cancel(self, task_id: str) -> A2ATask | None:
        """Refuse to cancel a message task; return None if no message task has that id.

        Raises A2AError for every message task: it is completed from the start.
        """
        if task := await self.get(task_id, history_length=0):
            why = f"Task {task_id} cannot be canceled: it is in the terminal state {task.status.state}"
            raise A2AError("TASK_NOT_CANCELABLE", why, taskId=task_id)
        return None

    async def page(self, query: ListQuery, client: str) -> TaskList:
        """Return a page of a context's tasks, newest first; an empty one if the query names no context.

        A context id that the node generated is a capability: whoever knows it may read the context's messages. Raises
        Invalid.
        """
        oldest, size = oldest_wanted(query), query.page_size
        if query.page_token and not ids.is_id(query.page_token):
            raise wrong_token()
        if not query.context_id or not includes(query, "TASK_STATE_COMPLETED"):  # the state of every message task
            return TaskList([], "", size, 0)
        context = await self._store.context(query.context_id, client)
        said = query.history_length != 0
        found, last, total = await self._store.page(context, query.page_token, size, oldest, said=said)
        if found is None:
            raise wrong_token()
        # A task that has just expired may still be listed in the context, but has no fields.
        rows = [row for row in found if is_message(row[1])]
        read = show_each(rows, lambda task_id, fields: self._read(task_id, fields, query.history_length))
        tasks = [task for task in read.values() if milliseconds(task.status.timestamp) >= oldest]
        return TaskList([listed(task, query) for task in tasks], last, size, total)

    def _read(self, task_id: str, fields: Fields, history_length: int | None) -> A2ATask:
        message = _MESSAGE.decode(fields[b"message"]) if b"message" in fields else None
        return self._task(task_id, fields[b"context_id"].decode(), int(fields[b"created_at"]), message, history_length)

    def _task(
        self, task_id: str, context_id: str, at: int, message: Message | None, history_length: int | None
    ) -> A2ATask:
        history: list[Message] | None = None
        if message and history_length != 0:
            history = [msgspec.structs.replace(message, task_id=task_id, context_id=context_id)]
        said = Part(text=f"acknowledged {task_id}", media_type="text/plain")
        metadata: dict[str, Any] = {"referenceId": task_id, "nodeId": self._node_id}
        return A2ATask(
            id=task_id,
            context_id=context_id,
            status=Status("TASK_STATE_COMPLETED", timestamp(at)),
            artifacts=[Artifact(artifact_id=task_id, name="acknowledgement", parts=[said])],
            history=history,
            metadata=metadata,
        )


def is_message(fields: Fields) -> bool:
    """Return whether the record is a message task, not a work contract."""
    return fields.get(b"kind") == b"message"
