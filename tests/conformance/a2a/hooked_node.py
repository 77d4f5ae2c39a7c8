"""A web process that answers as the protocol's test kit (a2a-tck, branch 1.0-dev) requires of an agent under test.

The prefix of a messageId tells the agent how to answer: with a certain artifact, with a message instead of a task, or
with a task that waits for input. `python -m tests.conformance.a2a.hooked_node` serves until it is stopped, with the
settings of the environment.
"""

import msgspec

from node.a2a.model import A2ATask, Artifact, Message, Part, ReceivedMessage, SendMessageResponse
from node.a2a.service import Messages
from node.a2a.store import Fields, MessageStore
from node.config import Settings, load
from node.run import launch
from node.run.services import Services, Stores
from node.run.web import WebNode
from node.store import Store, keys
from node.store.decoding import fields_of
from node.store.idempotency import IdempotencyKey
from node.store.limits import RateLimit
from node.web.address import ClientAddress
from node.web.application import WebApplication

ARTIFACTS = {
    "tck-artifact-text": Part(text="Generated text content"),
    "tck-artifact-file": Part(raw="R2VuZXJhdGVkIHRleHQgY29udGVudA==", filename="output.txt", media_type="text/plain"),
    "tck-artifact-file-url": Part(
        url="https://node.example/output.txt", filename="output.txt", media_type="text/plain"
    ),
    "tck-artifact-data": Part(data=msgspec.Raw(b'{"key":"value","count":42}')),
}
MESSAGE = "tck-message-response"
WAITS = "tck-input-required"

_TURNS = msgspec.json.Decoder(list[Message])


class HookedStore(MessageStore):
    """The store of message tasks, which also reads the fields that the hooks add to a task."""

    async def read(self, task_id: str, *, said: bool = True) -> Fields:
        return fields_of(await self._store.command("HGETALL", keys.task(task_id)))

    async def page(
        self, context: str, after: str, limit: int, oldest: int, *, said: bool
    ) -> tuple[list[tuple[str, Fields]] | None, str, int]:
        found, last, total = await super().page(context, after, limit, oldest, said=said)
        return found and [(task_id, await self.read(task_id)) for task_id, _ in found], last, total


class HookedMessages(Messages):
    """The service of message:send that behaves as the test kit expects."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._tasks = HookedStore(store, settings.idempotency_ttl, settings.message_retention_days)
        super().__init__(self._tasks, settings)
        self._redis = store

    async def send(
        self, received: ReceivedMessage, rate: RateLimit, idempotency: IdempotencyKey | None
    ) -> tuple[SendMessageResponse, bool]:
        """Store a message, or add it to the turns of a waiting task, and answer as its messageId asks."""
        replayed, task_id = False, received.message.task_id
        if task_id is None:
            response, replayed = await super().send(received, rate, idempotency)
            assert response.task
            task_id = response.task.id
        else:
            await self.check_task(task_id, received.message.context_id)
            turns = [*await self._turns(task_id), received.message]
            await self._redis.command("HSET", keys.task(task_id), "turns", msgspec.json.encode(turns))
        task = await self.get(task_id, received.history_length)
        assert task
        if not received.message.message_id.startswith(MESSAGE):
            return SendMessageResponse(task=task), replayed
        parts = [Part(text="Direct message response")]
        message = Message(message_id=task_id, role="ROLE_AGENT", parts=parts, context_id=task.context_id)
        return SendMessageResponse(message=message), replayed

    async def cancel(self, task_id: str) -> A2ATask | None:
        """Cancel a waiting task."""
        if not await self._waits(task_id):
            return await super().cancel(task_id)
        await self._redis.command("HSET", keys.task(task_id), "canceled", "1")
        return await self.get(task_id)

    async def check_task(self, task_id: str, context_id: str | None) -> None:
        """Check that a task accepts another message. A waiting one does."""
        task = await self.get(task_id)
        if task is None or context_id not in {None, task.context_id} or not await self._waits(task_id):
            await super().check_task(task_id, context_id)

    def _read(self, task_id: str, fields: Fields, history_length: int | None) -> A2ATask:
        task = super()._read(task_id, fields, None)
        turns = [*(task.history or []), *_TURNS.decode(fields.get(b"turns", b"[]"))]
        for message in turns:
            message.task_id, message.context_id = task.id, task.context_id
        if b"canceled" in fields:
            task.status.state, task.artifacts = "TASK_STATE_CANCELED", None
        elif turns[-1].message_id.startswith(WAITS):
            task.status.state, task.artifacts = "TASK_STATE_INPUT_REQUIRED", None
        elif (part := ARTIFACTS.get(_hook(turns[0]))) is not None:
            task.artifacts = [Artifact(artifact_id=task_id, parts=[part])]
        task.history = None if history_length == 0 else turns[-(history_length or len(turns)) :]
        return task

    async def _waits(self, task_id: str) -> bool:
        task = await self.get(task_id)
        return task is not None and task.status.state == "TASK_STATE_INPUT_REQUIRED"

    async def _turns(self, task_id: str) -> list[Message]:
        return _TURNS.decode((await self._tasks.read(task_id)).get(b"turns", b"[]"))


class HookedServices(Services):
    """The services of a node, with HookedMessages in place of Messages."""

    def __init__(self, settings: Settings, stores: Stores) -> None:
        super().__init__(settings, stores)
        self.messages = HookedMessages(settings, stores.main)


class HookedNode(WebNode):
    """A web process with HookedServices."""

    services_of = HookedServices


def create(settings: Settings) -> WebApplication:
    """The ASGI application."""

    async def compose() -> WebNode:
        return await HookedNode.start(settings)

    return WebApplication(compose, ClientAddress(settings.trusted_proxies, settings.forwarded_header))


def _hook(message: Message) -> str:
    """Return the longest prefix in ARTIFACTS that the messageId begins with, or an empty text."""
    return max((name for name in ARTIFACTS if message.message_id.startswith(name)), key=len, default="")


if __name__ == "__main__":
    launch.web(load(), "tests.conformance.a2a.hooked_node:create")
