"""A2A tasks in Redis: what became of the messages of each, and which ones a context is about.

The receipt of a task's first message has the ids of all. It outlives the others, so a task is there as long as it is;
a message in the middle whose receipt has ended is left out.
"""

import math
from collections.abc import Callable
from typing import cast

from node.inbox import steps
from node.inbox.message_store import InboxMessageStore, StoredReceipt
from node.inbox.model import InboxTask, InboxTurn
from node.store import Store, keys
from node.store.bulk import bulk, bulk_steps
from node.store.long_poll import may_wait, wait_for_change
from node.store.steps import Step


class InboxTaskStore:
    """Reads tasks, and waits for what becomes of them."""

    def __init__(self, store: Store, messages: InboxMessageStore) -> None:
        self._store = store
        self._messages = messages

    @property
    def may_wait(self) -> bool:
        """Whether this process lets anybody else wait."""
        return may_wait(self._store.wakeups)

    async def read(self, address: str, task_id: str) -> InboxTask | None:
        """A task; None if no message that began one has this id, or its time is over. Raises StoreUnavailable."""
        first = await self._messages.receipt(address, task_id)
        if first is None or first.fields.get(b"task") != task_id.encode():
            return None
        others = first.fields[b"turns"].decode().split()[1:]
        replies = await bulk_steps(self._store, [_reading(address, each) for each in others])
        found = [(task_id, first)]
        found += [
            (each, read) for each, reply in zip(others, replies, strict=True) if (read := StoredReceipt.of(reply))
        ]
        if others and found[-1][0] != others[-1]:
            return None
        turns = [_turn(each, read) for each, read in found]
        return InboxTask(task_id, first.fields[b"context"].decode(), turns, found[-1][1].lasts)

    async def wait(
        self, address: str, task: InboxTask, seconds: float, is_new: Callable[[InboxTask | None], bool]
    ) -> InboxTask | None:
        """`read`, once the task is new, or after `seconds`. Raises StoreUnavailable.

        The next message of a task is told on the channel of the one before, so that one channel tells of both.
        """
        return await wait_for_change(
            self._store.wakeups,
            keys.inbox_receipt(address, task.last.id),
            seconds,
            lambda: self.read(address, task.id),
            is_new,
            lasts=lambda found: found.lasts if found else math.inf,
        )

    async def of_context(self, address: str, name: str) -> list[str]:
        """The ids of a context's tasks, the newest first. Raises StoreUnavailable."""
        [found] = await bulk(self._store, [("ZREVRANGE", keys.inbox_context(address, name), 0, -1)])
        return [each.decode() for each in cast("list[bytes]", found)]


def _reading(address: str, message_id: str) -> Step:
    return steps.inbox_receipt(inbox=keys.inbox(address), receipt=keys.inbox_receipt(address, message_id))


def _turn(message_id: str, receipt: StoredReceipt) -> InboxTurn:
    fields, status = receipt.fields, receipt.status
    times = {"queued": b"sent_at", "read": b"read_at", "expired": b"expires_at"}
    # What a closed inbox held has ended before its time.
    at = min(int(fields[times.get(status, b"settled_at")]), receipt.now)
    reply, ciphertext = (fields[name].decode() if name in fields else None for name in (b"reply", b"reply_ciphertext"))
    artifacts = fields.get(b"artifact_ids", b"").decode().split()
    return InboxTurn(message_id, status, at, fields[b"said"], reply, ciphertext, artifacts)
