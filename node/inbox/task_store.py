"""A2A tasks in Redis: what became of the messages of each, and which ones a context is about.

The receipt of a task's first message has the ids of all. It outlives the others, so a task is there as long as it is;
a message in the middle whose receipt has ended is left out.
"""

import math
from collections.abc import Callable, Sequence
from typing import cast

from node.common.refusal import Refused
from node.common.unreadable import show_each
from node.inbox.model import InboxTask, InboxTurn
from node.inbox.receipt_store import ReceiptStore, StoredReceipt
from node.store import Store, keys
from node.store.bulk import bulk
from node.store.decoding import text
from node.store.long_poll import wait_for_change

STANDING = ("task", "turns", "context", "status", "sent_at", "read_at", "settled_at", "expires_at", "ended_at")
"""Fields of a receipt that say how its message stands, without what anybody said."""


class InboxTaskStore:
    """Reads tasks, and waits for what becomes of them. Every method raises StoreUnavailable."""

    def __init__(self, store: Store, receipts: ReceiptStore) -> None:
        self._store = store
        self._receipts = receipts

    @property
    def may_wait(self) -> bool:
        """Whether one more request may wait in this process."""
        return self._store.wakeups.waiters.may_wait

    async def read(self, address: str, task_id: str, most: int | None = None) -> InboxTask | None:
        """A task with its last `most` messages, or all; None if none began with that one."""
        first = await self._receipts.read(address, task_id)
        if first is None or first.fields.get(b"task") != task_id.encode():
            return None
        others = first.fields[b"turns"].decode().split()[1:]
        wanted = others if most is None else others[-max(most, 1) :]
        receipts = await self._receipts.read_many(address, wanted)
        found = [(task_id, first)] if most is None or not others or most > len(others) else []
        found += [(each, receipt) for each, receipt in zip(wanted, receipts, strict=True) if receipt]
        if others and (not found or found[-1][0] != others[-1]):
            return None
        turns = [_turn(each, read) for each, read in found]
        return InboxTask(task_id, first.fields[b"context"].decode(), turns, found[-1][1].lasts)

    async def head(self, address: str, task_id: str) -> InboxTask | None:
        """How a task stands, without what anybody said; None if none began with that message."""
        return next(iter(await self.heads(address, [task_id])), None)

    async def of_message(self, address: str, message_id: str) -> InboxTask | None:
        """The task that a message is of; None if it is of none, or its time is over."""
        receipt = await self._receipts.read(address, message_id)
        named = receipt.fields.get(b"task") if receipt else None
        return await self.read(address, named.decode()) if named else None

    async def heads(self, address: str, task_ids: Sequence[str]) -> list[InboxTask]:
        """How those of the tasks that are there and can be read stand, without what anybody said."""
        standing = await self._standing(address, task_ids)
        firsts = {each: receipt for each, receipt in standing.items() if b"turns" in receipt.fields}
        ends = show_each(firsts.items(), lambda _, first: first.fields[b"turns"].decode().split()[-1])
        lasts = await self._standing(address, list(ends.values()))

        def head(task_id: str, end: str) -> InboxTask:
            context, last = firsts[task_id].fields[b"context"].decode(), lasts[end]
            return InboxTask(task_id, context, [_turn(end, last)], last.lasts)

        return list(show_each(((each, end) for each, end in ends.items() if end in lasts), head).values())

    async def _standing(self, address: str, message_ids: Sequence[str]) -> dict[str, StoredReceipt]:
        """How messages of tasks stand, by their ids; those of none are left out."""
        receipts = await self._receipts.read_many(address, message_ids, STANDING)
        found = zip(message_ids, receipts, strict=True)
        return {each: receipt for each, receipt in found if receipt and b"task" in receipt.fields}

    async def wait(
        self, address: str, task: InboxTask, seconds: float, is_new: Callable[[InboxTask | None], bool]
    ) -> InboxTask | None:
        """The task with its last message, once it is new, or after `seconds`.

        The next message of a task is told on the channel of the one before, so that one channel tells of both.
        """
        return await wait_for_change(
            self._store.wakeups,
            keys.inbox_receipt(address, task.last.id),
            seconds,
            lambda: self.read(address, task.id, 1),
            is_new,
            lasts=lambda found: found.lasts if found else math.inf,
        )

    async def of_context(self, address: str, name: str) -> list[str]:
        """The ids of a context's tasks, in no order. Raises Refused `inbox.unknown`."""
        context = keys.inbox_context(address, name)
        is_open, found = await bulk(self._store, [("EXISTS", keys.inbox(address)), ("ZRANGE", context, 0, -1)])
        if not is_open:
            raise Refused("inbox.unknown")
        return [each.decode() for each in cast("list[bytes]", found)]


def _turn(message_id: str, receipt: StoredReceipt) -> InboxTurn:
    fields, status = receipt.fields, receipt.status
    times = {"queued": b"sent_at", "read": b"read_at", "expired": b"expires_at"}
    # A message in an inbox that was closed ended before its time.
    at = min(int(fields[times.get(status, b"settled_at")]), int(fields.get(b"ended_at", receipt.now)))
    reply, ciphertext = text(fields.get(b"reply")), text(fields.get(b"reply_ciphertext"))
    artifacts = fields.get(b"artifact_ids", b"").decode().split()
    return InboxTurn(message_id, status, at, fields.get(b"said", b""), reply, ciphertext, artifacts)
