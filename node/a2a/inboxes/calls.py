"""The operations of an inbox's agent, for both bindings: take a permit, decode, charge, and call the service."""

from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from node.a2a.inboxes.push_config import PushConfig, SentPushConfig, target_in_message, target_of
from node.a2a.inboxes.pushes import PushConfigService
from node.a2a.inboxes.service import InboxAgents
from node.a2a.inboxes.stream import Form, TaskStream
from node.a2a.inboxes.view import latest
from node.a2a.model import A2ATask, ListQuery, ReceivedMessage, SendMessageResponse, TaskList
from node.a2a.request import message_of
from node.callbacks.target_check import TargetCheck
from node.common.refusal import Refused
from node.inbox.model import InboxProof, InboxTask
from node.store import ids
from node.store.errors import after_write
from node.web.http import Request
from node.web.idempotency import idempotency_key, mark_replayed
from node.web.json import decode
from node.web.limits import Limiter
from node.web.signature import Signatures
from node.web.streams import EVENT_STREAM, STREAM_HEADERS, StreamCount, Streaming, hold_place

BLOCKING_SECONDS = 30.0
"""How long a request to send waits for the answer of the inbox's owner, unless the sender wants the task at once."""

MAX_TASK_STREAMS = 1000
"""Most open streams of one process, a quarter of the connections that it accepts. Beyond it, the answer is 503."""

READ_BYTES = 32 * 1024
"""Cost of reading a task when only part of its history is shown, in bytes of an answer. The first and the last message
are always read, with the owner's replies to them, even if they are not shown."""


class InboxCalls:
    """The operations that both bindings share."""

    def __init__(
        self,
        agents: InboxAgents,
        pushes: PushConfigService,
        targets: TargetCheck,
        limiter: Limiter,
        signatures: Signatures,
    ) -> None:
        self._agents = agents
        self._pushes = pushes
        self._targets = targets
        self._limiter = limiter
        self._signatures = signatures
        self._streams = StreamCount()

    async def send(self, request: Request, content: bytes) -> SendMessageResponse:
        """Send the message of a SendMessageRequest and, unless it asks for the task at once, wait for the owner."""
        address = request.params["address"]
        received, task = await self._sent(request, content)
        if not received.returns_at_once:
            task = latest(task)

            def until_paused(seconds: float) -> Coroutine[Any, Any, InboxTask]:
                return self._agents.until_paused(address, task, seconds, received.history_length)

            try:
                task = await request.while_waiting(BLOCKING_SECONDS, until_paused(BLOCKING_SECONDS))
            except Refused as refused:
                if refused.code != "limit.waiting":
                    raise
                task = await until_paused(0)  # the message was sent, so the answer is the task as it is now
        return SendMessageResponse(task=self._agents.view.task(task, received.history_length))

    async def send_streaming(self, request: Request, content: bytes, form: Form) -> Streaming:
        """Send the message of a SendMessageRequest; stream its task until the task is over or waits for the sender."""
        async with self._opening(request) as opening:
            received, task = await self._sent(request, content)
            address, length = request.params["address"], received.history_length
            return _streaming(TaskStream(self._agents, address, task, form, length, is_whole=False), opening)

    async def subscribe(self, request: Request, task_id: str, form: Form) -> Streaming:
        """Stream a task until it is over."""
        address = request.params["address"]
        task = await self._agents.followed(address, task_id)
        async with self._opening(request) as opening:
            return _streaming(TaskStream(self._agents, address, task, form, is_whole=True), opening)

    async def get(self, request: Request, task_id: str, history_length: int | None) -> A2ATask:
        """Return a task with the last `history_length` messages, or all. Raises A2AError, StoreUnavailable."""
        request.cost += 0 if history_length is None else READ_BYTES
        task = await self._agents.get(request.params["address"], task_id, history_length)
        return self._agents.view.task(task, history_length)

    async def page(self, request: Request, query: ListQuery) -> TaskList:
        """Return a page of a context's tasks. Raises what `InboxAgents.page` raises."""
        tasks, cost = await self._agents.page(request.params["address"], query, request.client)
        request.cost += cost
        return tasks

    async def cancel(self, request: Request, task_id: str) -> A2ATask:
        """Withdraw the last message of a task. Raises A2AError, StoreUnavailable."""
        return await self._agents.cancel(request.params["address"], task_id)

    async def create_push(self, request: Request, task_id: str, content: bytes) -> PushConfig:
        """Register a receiver that is notified of changes of a task."""
        async with self._limiter.permit(request, "inbox_send") as permit:
            sent = decode(content, SentPushConfig)
            await permit.count()
            target = await target_of(sent, self._targets, request.client)
            await permit.charge("message", len(content))
            return await self._pushes.create(request.params["address"], task_id, target)

    async def _sent(self, request: Request, content: bytes) -> tuple[ReceivedMessage, InboxTask]:
        address = request.params["address"]
        self._limiter.precheck(request, "inbox_sender", address)
        async with self._limiter.permit(request, "inbox_send") as permit:
            received = await message_of(request, content)
            await permit.count()
            signed = await self._signatures.of(request, ())
            push = None
            if received.push is not None:
                push = await target_in_message(received.push, self._targets, request.client)
                if received.message.task_id is not None:
                    await self._pushes.require_room(address, received.message.task_id, push)
            proof = InboxProof(None, signed.signer, signed.replay_id)
            home = ids.partition_of(address)
            idempotency = idempotency_key(request, f"inbox-a2a:{address}", content, home=home)
            async with self._limiter.permit(request, "inbox_sender", address, refusals=False) as rate:
                # The text is kept twice: for the inbox's owner and in the task's history.
                await permit.charge("message", 2 * len(content), idempotency)
                task, is_replay = await self._agents.send(rate, address, received, proof, idempotency)
            if is_replay:
                await permit.keep_nothing()
        if push:  # outside the permit, which gives back its charge on a refusal: the message is already stored
            with after_write("the message is sent"):
                await self._pushes.create(address, task.id, push)
        if is_replay:
            mark_replayed(request)
        return received, task

    @asynccontextmanager
    async def _opening(self, request: Request) -> AsyncGenerator[AsyncExitStack]:
        """Take a place for a stream in this process and in the client's quota. The block hands it to `_streaming`.

        Raises Refused `store.busy` if this process has no room, and what `Permit.hold` raises.
        """
        if not self._agents.may_wait:
            raise Refused("store.busy", retry_after=5)
        async with self._streams.opening(MAX_TASK_STREAMS) as opening:
            await hold_place(self._limiter, request, "a2a", self._streams.taken(MAX_TASK_STREAMS), opening)
            yield opening


def _streaming(stream: TaskStream, opening: AsyncExitStack) -> Streaming:
    return Streaming(stream.run, (EVENT_STREAM, *STREAM_HEADERS), opening.pop_all().aclose)
