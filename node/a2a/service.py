"""A2A messages: acknowledged as completed tasks, logged under their context (SPEC 4.2)."""

import math
import re
from asyncio import gather
from datetime import UTC, datetime
from typing import Any

import msgspec

from node.a2a.errors import A2AError
from node.a2a.model import Artifact, Message, Part, SendMessageResponse, Status, Task, TaskList
from node.a2a.store import ELSEWHERE, Fields, KeptMessage, MessageStore
from node.a2a.strict_request import ReceivedMessage
from node.common.refusal import Invalid, Refused
from node.common.timestamps import timestamp
from node.config import Limit, Settings
from node.store import ids
from node.store.idempotency import IdempotencyKey
from node.text.english import is_english

DEFAULT_PAGE = 20
LARGEST_PAGE = 100

EVERY_TASK = {"", "TASK_STATE_UNSPECIFIED", "TASK_STATE_COMPLETED"}
"""The values of `status` under which a list has all tasks: they are completed from the start."""

_MESSAGE = msgspec.json.Decoder(Message)


class ListQuery(msgspec.Struct, rename="camel"):
    """The query of ListTasks, as text where a reader may send what is not of the protocol."""

    context_id: str = ""
    status: str = ""
    page_size: int = DEFAULT_PAGE
    page_token: str = ""
    history_length: int | None = None
    status_timestamp_after: str = ""
    last_updated_after: str = ""
    include_artifacts: bool = False


class Messages:
    """The service behind message:send and the tasks it leaves."""

    def __init__(self, store: MessageStore, settings: Settings) -> None:
        self._store = store
        self._node_id = settings.node_id

    def context_of(self, message: Message, client: str) -> tuple[str, bool]:
        """The context of a message, and whether it is in the partition of its client.

        A new context is made there, so that limit and log are one step.
        """
        home = ids.home_of(client)
        if message.context_id is None:
            return ids.unlisted_id(home), True
        return message.context_id, ids.context_home(message.context_id, client) == home

    async def check(self, sent: ReceivedMessage) -> None:
        """Raises Refused `language.not_english`, A2AError, StoreUnavailable."""
        if not is_english(sent.text):
            raise Refused("language.not_english")
        if sent.message.task_id is not None:
            await self.check_task(sent.message.task_id, sent.message.context_id)

    async def check_task(self, task_id: str, context_id: str | None) -> None:
        """Refuse a message to a task: there is none, it is of another context, or it takes no further messages.

        Raises A2AError, Invalid, StoreUnavailable.
        """
        fields = await self._store.read(task_id) if ids.is_id(task_id) else {}
        if not fields:
            raise A2AError("TASK_NOT_FOUND", f"The task {task_id} does not exist", taskId=task_id)
        if context_id is not None and context_id != fields.get(b"context_id", task_id.encode()).decode():
            raise Invalid.field("body", "message", "contextId", msg="contextId is not the one of the task")
        raise A2AError("UNSUPPORTED_OPERATION", f"The task {task_id} takes no further messages", taskId=task_id)

    async def accept(
        self,
        sent: ReceivedMessage,
        context_id: str,
        client: str,
        limit: Limit | None,
        idempotency: IdempotencyKey | None,
    ) -> KeptMessage:
        """Log the message; `limit` is None if it was counted already. Raises StoreUnavailable."""
        logged = msgspec.structs.replace(sent.message, context_id=context_id)
        fields: list[str | bytes] = ["context_id", context_id, "message", msgspec.json.encode(logged)]
        is_new = sent.message.context_id is None
        return await self._store.accept(context_id, client, limit or ELSEWHERE, idempotency, fields, is_new=is_new)

    async def reply(self, sent: ReceivedMessage, context_id: str, outcome: KeptMessage) -> SendMessageResponse:
        """The completed task of a message that was logged now, or before. Raises StoreUnavailable."""
        if outcome.kind == "replayed":
            return SendMessageResponse(task=await self.get(outcome.id, sent.history_length))
        task = self._task(outcome.id, context_id, outcome.created_at, sent.message, sent.history_length)
        return SendMessageResponse(task=task)

    async def get(self, task_id: str, history_length: int | None = None) -> Task | None:
        """A message task, or None if there is none under that id. Raises StoreUnavailable."""
        fields = await self._store.read(task_id) if ids.is_id(task_id) else {}
        return self._read(task_id, fields, history_length) if is_message(fields) else None

    async def cancel(self, task_id: str) -> Task | None:
        """None if there is no message task under that id. There is never one to cancel: it is completed from the start.

        Raises A2AError, StoreUnavailable.
        """
        task = await self.get(task_id)
        if task:
            why = f"Task {task_id} is in terminal state {task.status.state}"
            raise A2AError("TASK_NOT_CANCELABLE", why, taskId=task_id)
        return None

    async def page(self, query: ListQuery, client: str) -> TaskList:
        """The tasks of a context, newest first; without a context there is nothing to see.

        A context id that the node made is a capability: whoever knows it may read what was said there. Raises
        Invalid, StoreUnavailable.
        """
        size = query.page_size
        if not 1 <= size <= LARGEST_PAGE:
            raise Invalid.field("query", "pageSize", msg=f"Must be between 1 and {LARGEST_PAGE} inclusive, got {size}")
        if query.history_length is not None and query.history_length < 0:
            raise Invalid.field("query", "historyLength", msg="Must not be negative")
        oldest = _milliseconds(query.status_timestamp_after or query.last_updated_after)
        if query.page_token and not ids.is_id(query.page_token):
            raise _bad_token()
        if not query.context_id or query.status not in EVERY_TASK:
            return TaskList([], "", size, 0)
        context = await self._store.context(query.context_id, client)
        found, total = await gather(
            self._store.page(context, query.page_token, size + 1), self._store.count(context, oldest)
        )
        if found is None:
            raise _bad_token()
        # One that has just come to its end is still in the context, without fields.
        rows = [row for row in found if is_message(row[1]) and int(row[1][b"created_at"]) >= oldest]
        tasks = [self._read(task_id, fields, query.history_length) for task_id, fields in rows[:size]]
        if not query.include_artifacts:
            for task in tasks:
                task.artifacts = None
        return TaskList(tasks, tasks[-1].id if len(rows) > size else "", size, total)

    def _read(self, task_id: str, fields: Fields, history_length: int | None) -> Task:
        message = _MESSAGE.decode(fields[b"message"])
        return self._task(task_id, fields[b"context_id"].decode(), int(fields[b"created_at"]), message, history_length)

    def _task(self, task_id: str, context_id: str, at: int, message: Message, history_length: int | None) -> Task:
        history: list[Message] | None = None
        if history_length != 0:
            history = [msgspec.structs.replace(message, task_id=task_id, context_id=context_id)]
        said = Part(text=f"acknowledged {task_id}", media_type="text/plain")
        metadata: dict[str, Any] = {"referenceId": task_id, "nodeId": self._node_id}
        return Task(
            id=task_id,
            context_id=context_id,
            status=Status("TASK_STATE_COMPLETED", timestamp(at)),
            artifacts=[Artifact(artifact_id=task_id, name="acknowledgement", parts=[said])],
            history=history,
            metadata=metadata,
        )


def is_message(fields: Fields) -> bool:
    """Whether the record is that of a message task, not of a work contract."""
    return fields.get(b"kind") == b"message"


def _milliseconds(instant: str) -> int:
    if not instant:
        return 0
    try:
        # Some clients send seven digits of a second; more than six say nothing here.
        trimmed = re.sub(r"(\.\d{6})\d+", r"\1", instant)
        when = datetime.fromisoformat(trimmed)
        return max(0, math.ceil((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise Invalid.field("query", "statusTimestampAfter", msg="Must be a time in RFC 3339, UTC") from None


def _bad_token() -> Invalid:
    return Invalid.field("query", "pageToken", msg="Must be the nextPageToken of an earlier answer")
