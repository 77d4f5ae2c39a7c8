"""An inbox as an A2A agent: what its clients send are messages to its owner, and tasks are what becomes of them."""

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
"""Largest JSON of a message, with its metadata, in which the text counts as it is, though escapes may double it. It is
kept in addition to the text that its owner reads."""

MAX_TURNS = 32
"""Messages of one task."""

PAGE_BYTES = 1024 * 1024
"""Bytes of JSON on a page of tasks, which ends with the one that reaches it."""

AT = re.compile("[0-9]{1,15}")
"""Milliseconds since 1970."""

PLACES: dict[object, tuple[str | int, ...]] = {
    "body": ("body", "message", "parts"),
    "thread": ("body", "message", "contextId"),
}
"""Where an A2A message has the fields that an inbox calls by these names."""

LOOK_BYTES = 4096
"""What looking at one task of a context costs, in bytes of an answer. It takes 60 µs, half of them in Redis."""


class InboxAgents:
    """The service behind `/api/v1/inboxes/{address}/a2a`."""

    def __init__(self, tasks: InboxTasks, settings: Settings) -> None:
        self._tasks = tasks
        self.view = TaskView(settings.public_url)

    @property
    def may_wait(self) -> bool:
        """Whether this process lets anybody else wait."""
        return self._tasks.may_wait

    async def send(
        self,
        rate: RateLimit,
        address: str,
        received: ReceivedMessage,
        proof: InboxProof,
        idempotency: IdempotencyKey | None,
    ) -> tuple[InboxTask, bool]:
        """Send a message to an inbox: its task, and whether it was sent before.

        Raises A2AError, Invalid, Refused `inbox.unknown`, `inbox.policy`, `inbox.turn`, `inbox.full`,
        `limit.exceeded`, `idempotency.conflict`, `signature.replayed`, StoreUnavailable.
        """
        message, earlier, closed = received.message, None, None
        if message.task_id is not None:
            earlier = await self.get(address, message.task_id)
            closed = _why_not(earlier, message.context_id)
            if closed and not idempotency:  # with a key, it may be the very message after which the task takes no other
                raise closed
        context = earlier.context if earlier else message.context_id or self._tasks.new_context(address)
        if len(context) > TOPIC_LENGTH:
            raise _wrong("contextId", f"Must have at most {TOPIC_LENGTH} characters")
        said = msgspec.json.encode(message)
        # A text that is too long is refused as such, below.
        text_bytes = min(len(received.text.encode()), BODY_BYTES)
        size = len(said) - len(msgspec.json.encode(received.text)) + text_bytes
        if size > MAX_SAID_BYTES:
            raise _wrong("metadata", f"The message has {size} bytes of JSON; at most {MAX_SAID_BYTES} are kept")
        new = NewInboxMessage(body=received.text, thread=context, in_reply_to=earlier.last.id if earlier else None)
        turn = NewTurn(
            task=earlier.id if earlier else "",
            before=earlier.last.id if earlier and not closed else "",  # empty: refused, unless it is repeated
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
        """A task with so much of its history, once it is over or needs its sender, or after `seconds`.

        If it cannot be read any more, `task` as it is: a client that got an error would send its message again. Raises
        A2AError.
        """
        with refused_as_a2a(task.id), suppress(StoreUnavailable):
            await self._tasks.wait(address, task, seconds, lambda found: found.last.status in PAUSES)
            return await self._tasks.get(address, task.id, history_length)
        return task

    async def until_changed(self, address: str, task: InboxTask, seconds: float) -> InboxTask:
        """A task from its last message in `task` on, once it has changed, or as it is after `seconds`.

        Raises A2AError, StoreUnavailable.
        """
        with refused_as_a2a(task.id):
            return await self._tasks.wait(address, task, seconds, lambda found: found.version != task.version)

    async def get(self, address: str, task_id: str, history_length: int | None = None) -> InboxTask:
        """A task, with as much of it read as that length of its history needs. Raises A2AError, StoreUnavailable."""
        with refused_as_a2a(task_id):
            return await self._tasks.get(address, task_id, history_length)

    async def followed(self, address: str, task_id: str) -> InboxTask:
        """A task that is not over. Raises A2AError, StoreUnavailable."""
        with refused_as_a2a(task_id):
            head = await self._tasks.head(address, task_id)
        if head.last.status in ENDS:
            why = f"Task {task_id} is over, so there is nothing to subscribe to; read it with GetTask"
            raise A2AError("UNSUPPORTED_OPERATION", why, taskId=task_id)
        return await self.get(address, task_id)

    async def cancel(self, address: str, task_id: str) -> A2ATask:
        """Withdraw the last message of a task; repeated, it changes nothing. Raises A2AError, StoreUnavailable."""
        with refused_as_a2a(task_id):
            task = await self._tasks.head(address, task_id)
            return self.view.task(await self._tasks.cancel(address, task))

    async def page(self, address: str, query: ListQuery, client: str) -> tuple[TaskList, int]:
        """The tasks of a context, the last changed first, and what finding them cost, in bytes of an answer.

        Without a context there is nothing to see.

        A page begins after the time of change and the id that end the page before: a task that changes meanwhile moves
        to the front, and none of the others is shown twice or left out. Raises Invalid, Refused `inbox.unknown`,
        StoreUnavailable.
        """
        oldest, before, size = oldest_wanted(query), _change_named(query.page_token), query.page_size
        if query.status and query.status not in ALL_STATES:
            raise Invalid.field("query", "status", msg="Must be the name of a task state, such as TASK_STATE_WORKING")
        found = await self._tasks.of_context(address, query.context_id, client)
        wanted = [task for task in found if task.last.at >= oldest and includes(query, STATES[task.last.status])]
        left = [task for task in wanted if before is None or task.changed < before]
        shown, room = left[:size], PAGE_BYTES
        tasks: list[A2ATask] = []

        def show(_: str, task: InboxTask) -> A2ATask:
            return listed(self.view.task(task, query.history_length), query)

        for index, each in enumerate(shown):
            with suppress(A2AError):  # it has expired meanwhile
                read = await self.get(address, each.id, query.history_length)
                for task in show_each([(each.id, read)], show).values():
                    tasks.append(task)
                    room -= len(msgspec.json.encode(task))
            if room <= 0:
                shown = shown[: index + 1]
                break
        token = "{}.{}".format(*shown[-1].changed) if len(left) > len(shown) else ""
        return TaskList(tasks, token, size, len(wanted)), len(found) * LOOK_BYTES


def _change_named(token: str) -> tuple[int, str] | None:
    """Where a page begins: after the task of that time of change (ms) and id. Raises Invalid."""
    at, _, task_id = token.partition(".")
    if token and not (ids.is_id(task_id) and AT.fullmatch(at)):
        raise wrong_token()
    return (int(at), task_id) if token else None


def _why_not(task: InboxTask, context_id: str | None) -> A2AError | None:
    """Why a task takes no message: it is over, waits for its owner, or is full; None if it takes one.

    Raises Invalid for a message of another context.
    """
    if context_id is not None and context_id != task.context:
        raise _wrong("contextId", "contextId is not the one of the task")
    if task.last.status != "input_required":
        is_over = task.last.status in ENDS
        why = "it is over" if is_over else "its owner has not answered yet; wait until it asks for input"
        return A2AError("UNSUPPORTED_OPERATION", f"The task {task.id} takes no message now: {why}", taskId=task.id)
    if len(task.turns) >= MAX_TURNS:
        why = f"The task {task.id} has {MAX_TURNS} messages, and takes no more"
        return A2AError("UNSUPPORTED_OPERATION", why, taskId=task.id)
    return None


@contextmanager
def refused_as_a2a(task_id: str) -> Generator[None]:
    """Raise refusals of an inbox about a task as A2A names them, and anything else as it is."""
    try:
        yield
    except Refused as refused:
        match refused.code:
            case "receipt.unknown":
                reason, why = "TASK_NOT_FOUND", f"The task {task_id} does not exist, or its time is over"
            case "inbox.settled":
                why = f"Task {task_id} cannot be canceled: its owner has settled it, or it has expired"
                reason = "TASK_NOT_CANCELABLE"
            case _:
                raise
        raise A2AError(reason, why, taskId=task_id) from None


def _wrong(field: str, msg: str) -> Invalid:
    return Invalid.field("body", "message", field, msg=msg)
