"""An inbox as an A2A agent: A2A messages become messages to the inbox's owner, and their receipts become A2A tasks."""

import re
from collections.abc import Generator
from contextlib import contextmanager, suppress

import msgspec

from node.a2a.inboxes.view import ENDS, PAUSES, STATES, TaskView
from node.a2a.model import A2ATask, ListQuery, ReceivedMessage, TaskList
from node.a2a.proto_json import ALL_STATES
from node.a2a.query_checks import includes, listed, oldest_wanted, wrong_token
from node.a2a.refusal import A2AError
from node.common.refusal import Invalid, Refused
from node.common.unreadable import show_each
from node.config import Settings
from node.inbox.model import BODY_BYTES, TOPIC_LENGTH, InboxProof, InboxTask, NewInboxMessage, NewTurn
from node.inbox.service import InboxTasks
from node.store import ids
from node.store.errors import StoreUnavailable, after_write
from node.store.idempotency import IdempotencyKey
from node.store.limits import RateLimit

MAX_SAID_BYTES = 24 * 1024
"""Maximum size of a message's JSON, with its metadata, in bytes. The text counts unescaped, though escapes may double
it. The JSON is kept in addition to the text that the inbox's owner reads."""

MAX_TURNS = 32
"""Most messages of one task."""

PAGE_BYTES = 1024 * 1024
"""Size of a page of tasks, in bytes of JSON. The page ends with the task that reaches it."""

AT = re.compile("[0-9]{1,15}")
"""Pattern of a time in milliseconds since 1970."""

PLACES: dict[object, tuple[str | int, ...]] = {
    "body": ("body", "message", "parts"),
    "thread": ("body", "message", "contextId"),
}
"""Location in an A2A request of the fields of an inbox message."""

LOOK_BYTES = 4096
"""Cost of examining one task of a context, in bytes of an answer. It takes 60 µs, half of them in Redis."""


class InboxAgents:
    """The service behind `/api/v1/inboxes/{address}/a2a`."""

    def __init__(self, tasks: InboxTasks, settings: Settings) -> None:
        self._tasks = tasks
        self.view = TaskView(settings.public_url)

    @property
    def may_wait(self) -> bool:
        """Whether one more request may wait in this process."""
        return self._tasks.may_wait

    async def send(
        self,
        rate: RateLimit,
        address: str,
        received: ReceivedMessage,
        proof: InboxProof,
        idempotency: IdempotencyKey | None,
    ) -> tuple[InboxTask, bool]:
        """Send a message to an inbox. Return its task, and whether the request was a repeat.

        Raises A2AError, Invalid, Refused `inbox.unknown`, `inbox.policy`, `inbox.turn`, `inbox.full`,
        `limit.exceeded`, `idempotency.conflict`, `signature.replayed`, StoreUnavailable.
        """
        message, earlier, closed = received.message, None, None
        if message.task_id is not None:
            earlier = await self.get(address, message.task_id)
            closed = _why_not(earlier, message.context_id)
            if closed and not idempotency:  # with a key, it may repeat the message that closed the task to others
                raise closed
        context = earlier.context if earlier else message.context_id or self._tasks.new_context(address)
        if len(context) > TOPIC_LENGTH:
            raise _wrong("contextId", f"Must have at most {TOPIC_LENGTH} characters")
        said = msgspec.json.encode(message)
        # `InboxTasks.send` refuses a text that is too long.
        text_bytes = min(len(received.text.encode()), BODY_BYTES)
        size = len(said) - len(msgspec.json.encode(received.text)) + text_bytes
        if size > MAX_SAID_BYTES:
            raise _wrong(
                "metadata", f"The message has {size} bytes of JSON, the maximum is {MAX_SAID_BYTES}; send less metadata"
            )
        new = NewInboxMessage(body=received.text, thread=context, in_reply_to=earlier.last.id if earlier else None)
        turn = NewTurn(
            task=earlier.id if earlier else "",
            before=earlier.last.id if earlier and not closed else "",  # empty: the step accepts only a repeat
            context=context,
            context_name=self._tasks.context_name(address, context, rate.client),
            said=said,
        )
        try:
            sent_id, is_replay = await self._tasks.send(rate, address, new, turn, proof, idempotency)
        except Invalid as invalid:
            raise invalid.moved(lambda loc: PLACES.get(loc[-1], loc)) from None
        except Refused as refused:
            raise (closed if closed and refused.code == "inbox.turn" else refused) from None
        with after_write("the message is sent"):
            return await self.get(address, earlier.id if earlier else sent_id), is_replay

    async def until_paused(
        self, address: str, task: InboxTask, seconds: float, history_length: int | None
    ) -> InboxTask:
        """Return a task once it is over or waits for its sender, or after `seconds`. Raises A2AError.

        It has the last `history_length` messages, or all. If Redis cannot be reached any more, `task` is returned
        unchanged: a client that got an error would send its message again.
        """
        with refused_as_a2a(task.id), suppress(StoreUnavailable):
            await self._tasks.wait(address, task, seconds, lambda found: found.last.status in PAUSES)
            return await self._tasks.get(address, task.id, history_length)
        return task

    async def until_changed(self, address: str, task: InboxTask, seconds: float) -> InboxTask:
        """Return a task once it has changed, or after `seconds`. It begins with the last message of `task`.

        Raises A2AError, StoreUnavailable.
        """
        with refused_as_a2a(task.id):
            return await self._tasks.wait(address, task, seconds, lambda found: found.version != task.version)

    async def get(self, address: str, task_id: str, history_length: int | None = None) -> InboxTask:
        """Return a task with the last `history_length` messages, or all. Raises A2AError, StoreUnavailable."""
        with refused_as_a2a(task_id):
            return await self._tasks.get(address, task_id, history_length)

    async def followed(self, address: str, task_id: str) -> InboxTask:
        """Return a task that is not over, for a subscription. Raises A2AError, also if it is over; StoreUnavailable."""
        with refused_as_a2a(task_id):
            head = await self._tasks.head(address, task_id)
        if head.last.status in ENDS:
            why = f"Task {task_id} is over, so there is nothing to subscribe to; read it with GetTask"
            raise A2AError("UNSUPPORTED_OPERATION", why, taskId=task_id)
        return await self.get(address, task_id)

    async def cancel(self, address: str, task_id: str) -> A2ATask:
        """Withdraw the last message of a task. Idempotent. Raises A2AError, StoreUnavailable."""
        with refused_as_a2a(task_id):
            task = await self._tasks.head(address, task_id)
            return self.view.task(await self._tasks.cancel(address, task))

    async def page(self, address: str, query: ListQuery, client: str) -> tuple[TaskList, int]:
        """Return a page of a context's tasks, the last changed first, and the cost of the search in bytes of an answer.

        Without a context, the page is empty. The page token is a cursor: the time of change and the id of the last task
        on the previous page. A task that changes meanwhile moves to the front; no other task is shown twice or skipped.
        Raises Invalid, Refused `inbox.unknown`, StoreUnavailable.
        """
        oldest, before, size = oldest_wanted(query), _change_named(query.page_token), query.page_size
        if query.status and query.status not in ALL_STATES:
            raise Invalid.field("query", "status", msg="Must be the name of a task state, such as TASK_STATE_WORKING")

        def is_wanted(task: InboxTask) -> bool:
            return task.last.at >= oldest and includes(query, STATES[task.last.status])

        def is_left(task: InboxTask) -> bool:
            return before is None or task.changed < before

        found = await self._tasks.of_context(address, query.context_id, client)
        wanted = [*filter(is_wanted, found)]
        left = [*filter(is_left, wanted)]
        shown, room = left[:size], PAGE_BYTES
        tasks: list[A2ATask] = []

        def show(_: str, task: InboxTask) -> A2ATask:
            return listed(self.view.task(task, query.history_length), query)

        for index, each in enumerate(shown):
            with suppress(A2AError):  # the task has expired meanwhile
                read = await self.get(address, each.id, query.history_length)
                kept = [(each.id, read)] if is_wanted(read) and is_left(read) else []
                for task in show_each(kept, show).values():
                    tasks.append(task)
                    room -= len(msgspec.json.encode(task))
            if room <= 0:
                shown = shown[: index + 1]
                break
        tasks.sort(key=lambda task: (task.status.timestamp, task.id), reverse=True)  # some have changed meanwhile
        token = "{}.{}".format(*shown[-1].changed) if len(left) > len(shown) else ""
        return TaskList(tasks, token, size, len(wanted)), len(found) * LOOK_BYTES


def _change_named(token: str) -> tuple[int, str] | None:
    """Parse a page token into the time of change (ms) and id of the last task before the page; None if it is empty.

    Raises Invalid.
    """
    at, _, task_id = token.partition(".")
    if token and not (ids.is_id(task_id) and AT.fullmatch(at)):
        raise wrong_token()
    return (int(at), task_id) if token else None


def _why_not(task: InboxTask, context_id: str | None) -> A2AError | None:
    """Return why a task takes no message: it is over, waits for the owner, or is full. None if it takes one.

    Raises Invalid for a message with another context.
    """
    if context_id is not None and context_id != task.context:
        raise _wrong("contextId", "Must be the contextId of the task, or be omitted")
    if task.last.status != "input_required":
        is_over = task.last.status in ENDS
        why = "it is over; start a new task" if is_over else "wait until the inbox's owner asks for input"
        return A2AError("UNSUPPORTED_OPERATION", f"The task {task.id} takes no message now: {why}", taskId=task.id)
    if len(task.turns) >= MAX_TURNS:
        why = f"The task {task.id} has {MAX_TURNS} messages, the maximum; start a new task"
        return A2AError("UNSUPPORTED_OPERATION", why, taskId=task.id)
    return None


@contextmanager
def refused_as_a2a(task_id: str) -> Generator[None]:
    """Convert refusals of an inbox about a task into A2AError; let all others pass."""
    try:
        yield
    except Refused as refused:
        match refused.code:
            case "receipt.unknown":
                reason, why = "TASK_NOT_FOUND", f"The task {task_id} does not exist, or is no longer kept"
            case "inbox.settled":
                why = f"Task {task_id} cannot be canceled: the inbox's owner has settled it, or it has expired"
                reason = "TASK_NOT_CANCELABLE"
            case _:
                raise
        raise A2AError(reason, why, taskId=task_id) from None


def _wrong(field: str, msg: str) -> Invalid:
    return Invalid.field("body", "message", field, msg=msg)
