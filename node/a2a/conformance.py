"""What the protocol's test kit (a2a-tck, branch 1.0-dev) asks of an agent under test: RELAY_CONFORMANCE=1.

The kit says by the prefix of a messageId how the agent shall answer: with a certain artifact, with a
message in place of a task, or by a task that waits for input. Production never loads this file.
"""

import msgspec
import structlog

from node.a2a.model import Artifact, Message, Part, SendMessageResponse, Task
from node.a2a.service import Messages
from node.a2a.store import Fields, KeptMessage, MessageStore
from node.a2a.strict_request import ReceivedMessage
from node.config import Limit, Settings
from node.store import Store, keys
from node.store.idempotency import IdempotencyKey
from node.store.limits import Taken

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

log = structlog.get_logger()


class HookedMessages(Messages):
    """The service behind message:send, as the test kit wants to see it."""

    def __init__(self, settings: Settings, store: Store) -> None:
        super().__init__(MessageStore(store, settings.idempotency_ttl, settings.message_retention_days), settings)
        self._redis = store
        log.warning("RELAY_CONFORMANCE is on: this node serves a test kit, not the public")

    async def accept(
        self,
        sent: ReceivedMessage,
        context_id: str,
        client: str,
        limit: Limit | None,
        idempotency: IdempotencyKey | None,
    ) -> KeptMessage:
        """Log a message; one that follows up on a waiting task joins its turns, past the limit."""
        task_id = sent.message.task_id
        if task_id is None:
            return await super().accept(sent, context_id, client, limit, idempotency)
        turns = [*await self._turns(task_id), sent.message]
        await self._redis.command("HSET", keys.task(task_id), "turns", msgspec.json.encode(turns))
        return KeptMessage("kept", Taken(True, 0, 0), task_id)

    async def reply(self, sent: ReceivedMessage, context_id: str, outcome: KeptMessage) -> SendMessageResponse:
        """A message if the sender asked for one, else the task as it now is."""
        if sent.message.message_id.startswith(MESSAGE):
            parts = [Part(text="Direct message response")]
            message = Message(message_id=outcome.id, role="ROLE_AGENT", parts=parts, context_id=context_id)
            return SendMessageResponse(message=message)
        return SendMessageResponse(task=await self.get(outcome.id, sent.history_length))

    async def cancel(self, task_id: str) -> Task | None:
        """Cancel a task that waits."""
        if not await self._waits(task_id):
            return await super().cancel(task_id)
        await self._redis.command("HSET", keys.task(task_id), "canceled", "1")
        return await self.get(task_id)

    async def check_task(self, task_id: str, context_id: str | None) -> None:
        """Let a task that waits take a message."""
        task = await self.get(task_id)
        if task is None or context_id not in {None, task.context_id} or not await self._waits(task_id):
            await super().check_task(task_id, context_id)

    def _read(self, task_id: str, fields: Fields, history_length: int | None) -> Task:
        task = super()._read(task_id, fields, None)
        said = [*(task.history or []), *_TURNS.decode(fields.get(b"turns", b"[]"))]
        for message in said:
            message.task_id, message.context_id = task.id, task.context_id
        if b"canceled" in fields:
            task.status.state, task.artifacts = "TASK_STATE_CANCELED", None
        elif said[-1].message_id.startswith(WAITS):
            task.status.state, task.artifacts = "TASK_STATE_INPUT_REQUIRED", None
        elif (part := ARTIFACTS.get(_hook(said[0]))) is not None:
            task.artifacts = [Artifact(artifact_id=task_id, parts=[part])]
        task.history = None if history_length == 0 else said[-(history_length or len(said)) :]
        return task

    async def _waits(self, task_id: str) -> bool:
        task = await self.get(task_id)
        return task is not None and task.status.state == "TASK_STATE_INPUT_REQUIRED"

    async def _turns(self, task_id: str) -> list[Message]:
        return _TURNS.decode((await self._store.read(task_id)).get(b"turns", b"[]"))


def _hook(message: Message) -> str:
    """The longest prefix in ARTIFACTS that the messageId begins with, or nothing."""
    return max((name for name in ARTIFACTS if message.message_id.startswith(name)), key=len, default="")
