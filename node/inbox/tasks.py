"""Messages that form tasks, for the A2A agent in front of an inbox (NETWORK 1, "The inbox speaks A2A").

A task begins with a message, and continues with an answer each time that the owner of the inbox asks for input. Its id
cannot be guessed and is the only credential that its sender needs. The receipt of the first message has the ids of all
messages and outlives their receipts, so a task lasts as long as that receipt. A message between the first and the last
whose receipt has expired is left out.
"""

import math
from collections.abc import Callable, Sequence
from hmac import compare_digest

from node.common.refusal import Refused
from node.common.tokens import Tokens
from node.common.unreadable import show_each
from node.inbox.content import Sending
from node.inbox.message_store import InboxMessageStore
from node.inbox.model import InboxProof, InboxTask, InboxTurn, NewInboxMessage, NewTurn
from node.inbox.receipt_store import ReceiptStore, StoredReceipt
from node.store import Store, ids, keys
from node.store.decoding import names_of, text
from node.store.idempotency import IdempotencyKey
from node.store.limits import RateLimit
from node.store.long_poll import wait_for_change

CONTEXT_TOKEN_LENGTH = 22
"""Characters of a context id that prove that the node made the id: 132 bits."""

STATE = ("task", "turns", "context", "status", "sent_at", "read_at", "asked_at", "settled_at", "expires_at", "ended_at")
"""Fields of a receipt that give the state of its message, without anything that sender or owner wrote."""


class InboxTasks:
    """Sends messages of tasks and reads tasks. Every method raises StoreUnavailable."""

    def __init__(self, store: Store, receipts: ReceiptStore, messages: InboxMessageStore, tokens: Tokens) -> None:
        self._store = store
        self._receipts = receipts
        self._messages = messages
        self._tokens = tokens

    @property
    def may_wait(self) -> bool:
        """Whether one more request may wait in this process."""
        return self._store.wakeups.waiters.may_wait

    def new_context(self, address: str) -> str:
        """Return a new context id. It cannot be guessed: whoever knows it may list the tasks of the context."""
        name = ids.unlisted_id().replace("-", "")
        return f"{name}{self._proof(address, name)}"

    def context_name(self, address: str, context: str, client: str) -> str:
        """Return a context's name in Redis keys. Under an id that a client chose, each client has its own context."""
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
        """Send a message of a task. Returns its id, and whether this is a replay by Idempotency-Key.

        Raises Invalid, Refused `inbox.unknown`, `inbox.policy`, `inbox.turn`, `inbox.full`, `limit.exceeded`,
        `idempotency.conflict`, `signature.replayed`.
        """
        sent = await self._messages.send(Sending.of(address, new, proof, idempotency, turn), rate)
        if sent.replayed_at and idempotency:
            idempotency.check_token(*sent.replayed_at)
        return sent.id, sent.replayed_at is not None

    async def get(self, address: str, task_id: str, most: int | None = None) -> InboxTask:
        """Return a task with its last `most` messages, or all. Raises Refused `receipt.unknown`."""
        return _there(await self._read(address, task_id, most) if _is_name(address, task_id) else None)

    async def head(self, address: str, task_id: str) -> InboxTask:
        """Return a task with only its last message, without anything that sender or owner wrote.

        For callers that show no texts: the messages may have 2.5 MB, and nobody is charged for reading them. Raises
        Refused `receipt.unknown`.
        """
        heads = await self._heads(address, [task_id]) if _is_name(address, task_id) else []
        return _there(next(iter(heads), None))

    async def of_message(self, address: str, message_id: str) -> InboxTask | None:
        """Return the `head` of the task that a message belongs to; None if there is none, or it has expired."""
        message = (await self._states(address, [message_id])).get(message_id)
        heads = await self._heads(address, [message.fields[b"task"].decode()]) if message else []
        return next(iter(heads), None)

    async def wait(
        self, address: str, task: InboxTask, seconds: float, is_new: Callable[[InboxTask], bool]
    ) -> InboxTask:
        """Return a task from the last message in `task` on, once it `is_new`, or after `seconds`.

        The next message of a task is announced on the channel of the message before it, so listening on one channel is
        enough. Raises Refused `receipt.unknown`.
        """
        found = await wait_for_change(
            self._store.wakeups,
            keys.inbox_receipt(address, task.last.id),
            seconds,
            lambda: self._read(address, task.id, since=task.last.id),
            lambda found: found is None or is_new(found),
            lasts=lambda found: found.lasts if found else math.inf,
        )
        return _there(found)

    async def cancel(self, address: str, task: InboxTask) -> InboxTask:
        """Withdraw the last message of a task. Raises Refused `receipt.unknown`, `inbox.settled`."""
        await self._messages.withdraw(address, task.last.id, task.id)
        return await self.get(address, task.id)

    async def of_context(self, address: str, context: str, client: str) -> list[InboxTask]:
        """Return the `head` of each task of a context, the most recently changed first.

        Raises Refused `inbox.unknown`.
        """
        if not ids.is_address(address):
            raise Refused("inbox.unknown")
        listed = keys.inbox_context(address, self.context_name(address, context, client))
        is_open, named = await self._store.run_all([("EXISTS", keys.inbox(address)), ("ZRANGE", listed, 0, -1)])
        if not is_open:
            raise Refused("inbox.unknown")
        heads = await self._heads(address, names_of(named))
        return sorted(heads, key=lambda task: task.changed, reverse=True)

    async def _read(
        self, address: str, task_id: str, most: int | None = None, since: str | None = None
    ) -> InboxTask | None:
        """Return a task with its last `most` messages, those from `since` on, or all; None if there is no such task, or
        if Redis has lost the message `since`.
        """
        first = await self._receipts.read(address, task_id)
        if first is None or first.fields.get(b"task") != task_id.encode():
            return None
        named = first.fields[b"turns"].decode().split()
        if since:
            if since not in named:
                return None
            most = len(named) - named.index(since)
        wanted = named if most is None else named[-max(most, 1) :]
        others = [each for each in wanted if each != task_id]
        receipts = {task_id: first} | dict(zip(others, await self._receipts.read_many(address, others), strict=True))
        found = [(each, receipt) for each in wanted if (receipt := receipts[each])]
        if not found or found[-1][0] != named[-1]:
            return None
        turns = [_turn(each, read) for each, read in found]
        return InboxTask(task_id, first.fields[b"context"].decode(), turns, found[-1][1].lasts)

    async def _heads(self, address: str, task_ids: Sequence[str]) -> list[InboxTask]:
        """Return the `head` of each task that exists and can be decoded."""
        states = await self._states(address, task_ids)
        firsts = {each: receipt for each, receipt in states.items() if b"turns" in receipt.fields}
        ends = show_each(firsts.items(), lambda _, first: first.fields[b"turns"].decode().split()[-1])
        lasts = await self._states(address, list(ends.values()))

        def head(task_id: str, end: str) -> InboxTask:
            context, last = firsts[task_id].fields[b"context"].decode(), lasts[end]
            return InboxTask(task_id, context, [_turn(end, last)], last.lasts)

        return list(show_each(((each, end) for each, end in ends.items() if end in lasts), head).values())

    async def _states(self, address: str, message_ids: Sequence[str]) -> dict[str, StoredReceipt]:
        """Return the STATE fields of messages by message id; messages that belong to no task are left out."""
        receipts = await self._receipts.read_many(address, message_ids, STATE)
        found = zip(message_ids, receipts, strict=True)
        return {each: receipt for each, receipt in found if receipt and b"task" in receipt.fields}

    def _proof(self, address: str, name: str) -> str:
        return self._tokens.issue("a2a-context", address, name)[:CONTEXT_TOKEN_LENGTH]


def _is_name(address: str, task_id: str) -> bool:
    return ids.is_address(address) and ids.is_id(task_id)


def _there(found: InboxTask | None) -> InboxTask:
    if found is None:
        raise Refused("receipt.unknown")
    return found


def _turn(message_id: str, receipt: StoredReceipt) -> InboxTurn:
    fields, status = receipt.fields, receipt.status
    times = {"queued": b"sent_at", "read": b"read_at", "expired": b"expires_at"}
    # A message ends before it expires if its inbox is closed.
    at = min(int(fields[times.get(status, b"settled_at")]), int(fields.get(b"ended_at", receipt.now)))
    reply, ciphertext = text(fields.get(b"reply")), text(fields.get(b"reply_ciphertext"))
    artifacts = fields.get(b"artifact_ids", b"").decode().split()
    read_at, asked_at = (int(fields.get(name, 0)) or None for name in (b"read_at", b"asked_at"))
    sent_at, said = int(fields[b"sent_at"]), fields.get(b"said", b"")
    return InboxTurn(message_id, status, at, sent_at, read_at, asked_at, said, reply, ciphertext, artifacts)
