"""What an A2A agent in front of an inbox needs: messages that make up tasks (NETWORK 1, "The inbox speaks A2A").

A task begins with a message, and goes on with an answer each time that its owner asks for input. Its id cannot be
guessed and is all that its sender has to show.
"""

from collections.abc import Callable
from hmac import compare_digest

from node.common.refusal import Refused
from node.common.tokens import Tokens
from node.inbox.message_store import InboxMessageStore
from node.inbox.model import InboxProof, InboxTask, NewInboxMessage, NewTurn
from node.inbox.sending import Sending
from node.inbox.task_store import InboxTaskStore
from node.store import ids
from node.store.idempotency import IdempotencyKey
from node.store.limits import RateLimit

CONTEXT_TOKEN_LENGTH = 22
"""Characters of a context id that prove that the node made it: 132 bits."""


class InboxTasks:
    """Sends messages of tasks, and tells what became of them. Every method raises StoreUnavailable."""

    def __init__(self, store: InboxTaskStore, messages: InboxMessageStore, tokens: Tokens) -> None:
        self._store = store
        self._messages = messages
        self._tokens = tokens

    @property
    def may_wait(self) -> bool:
        """Whether one more request may wait in this process."""
        return self._store.may_wait

    def new_context(self, address: str) -> str:
        """The id of a context that nobody can guess: whoever knows it may list its tasks."""
        name = ids.unlisted_id().replace("-", "")
        return f"{name}{self._proof(address, name)}"

    def context_name(self, address: str, context: str, client: str) -> str:
        """What a context is called in a key. Under an id that a client chose, each client has a context of its own."""
        name, proof = context[:32], context[32:]
        is_ours = compare_digest(proof.encode(), self._proof(address, name).encode())
        return ids.digest(context, "" if is_ours else client)

    async def send(
        self,
        rate: RateLimit,
        address: str,
        new: NewInboxMessage,
        turn: NewTurn,
        proof: InboxProof,
        idempotency: IdempotencyKey | None,
    ) -> tuple[str, bool]:
        """Send a message of a task: its id, and whether it was sent before.

        Raises Invalid, Refused `inbox.unknown`, `inbox.policy`, `inbox.turn`, `inbox.full`, `limit.exceeded`,
        `idempotency.conflict`, `signature.replayed`.
        """
        sent = await self._messages.send(Sending.of(address, new, proof, idempotency, turn), rate)
        if sent.replayed_at and idempotency:
            idempotency.check_token(*sent.replayed_at)
        return sent.id, sent.replayed_at is not None

    async def get(self, address: str, task_id: str, most: int | None = None) -> InboxTask:
        """A task with its last `most` messages, or all. Raises Refused `receipt.unknown`."""
        return _there(await self._store.read(address, task_id, most) if _is_name(address, task_id) else None)

    async def head(self, address: str, task_id: str) -> InboxTask:
        """How a task stands, with its last message but without what anybody said. Raises Refused `receipt.unknown`.

        For whoever shows nothing of it: its messages may have 2.5 MB, which nobody would be charged for.
        """
        return _there(await self._store.head(address, task_id) if _is_name(address, task_id) else None)

    async def of_message(self, address: str, message_id: str) -> InboxTask | None:
        """The task that a message is of; None if it is of none, or its time is over."""
        return await self._store.of_message(address, message_id)

    async def wait(
        self, address: str, task: InboxTask, seconds: float, is_new: Callable[[InboxTask], bool]
    ) -> InboxTask:
        """A task with its last message, once it is new, or after `seconds`. Raises Refused `receipt.unknown`."""
        found = await self._store.wait(address, task, seconds, lambda found: found is None or is_new(found))
        return _there(found)

    async def cancel(self, address: str, task: InboxTask) -> InboxTask:
        """Take back the last message of a task. Raises Refused `receipt.unknown`, `inbox.settled`."""
        await self._messages.withdraw(address, task.last.id, task.id)
        return await self.get(address, task.id)

    async def of_context(self, address: str, context: str, client: str) -> list[InboxTask]:
        """How a context's tasks stand, the last changed first, without what anybody said.

        Raises Refused `inbox.unknown`.
        """
        if not ids.is_address(address):
            raise Refused("inbox.unknown")
        named = await self._store.of_context(address, self.context_name(address, context, client))
        heads = await self._store.heads(address, named)
        return sorted(heads, key=lambda task: task.changed, reverse=True)

    def _proof(self, address: str, name: str) -> str:
        return self._tokens.issue("a2a-context", address, name)[:CONTEXT_TOKEN_LENGTH]


def _is_name(address: str, task_id: str) -> bool:
    return ids.is_address(address) and ids.is_id(task_id)


def _there(found: InboxTask | None) -> InboxTask:
    if found is None:
        raise Refused("receipt.unknown")
    return found
