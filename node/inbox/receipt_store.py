"""The receipts of messages in Redis: hashes that say what became of each message, and outlive message and inbox."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from node.inbox.model import InboxMessageStatus
from node.inbox.steps import inbox_receipt
from node.store import Store, keys
from node.store.decoding import fields_of
from node.store.long_poll import wait_for_change
from node.store.steps import Step


class StoredReceipt(msgspec.Struct, frozen=True):
    """The receipt of a message at the time `now` (ms)."""

    now: int
    epoch: str
    """Epoch of the inbox; empty if the inbox is closed."""
    is_held: bool
    """Whether the inbox holds the message. If not, the status is final unless the owner asked for input."""
    fields: Mapping[bytes, bytes]

    @property
    def status(self) -> InboxMessageStatus:
        """Status of the message: `expired` once it is neither held nor settled."""
        is_kept = self.is_held or b"settled_at" in self.fields
        return cast("InboxMessageStatus", self.fields[b"status"].decode()) if is_kept else "expired"

    @property
    def lasts(self) -> float:
        """Seconds until the message expires, unless it is settled before; infinite if it is not held."""
        return (int(self.fields[b"expires_at"]) - self.now + 1) / 1000 if self.is_held else math.inf


class ReceiptStore:
    """Reads receipts, and waits for what becomes of their messages. Every method raises StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, address: str, message_id: str) -> StoredReceipt | None:
        """Return the receipt of a message; None if there is none with this id, or it has expired."""
        return _receipt(await self._store.run(_reading(address, message_id, ())))

    async def read_many(
        self, address: str, message_ids: Sequence[str], names: Sequence[str] = ()
    ) -> list[StoredReceipt | None]:
        """Return any number of receipts, with all their fields, or only with those in `names`."""
        replies = await self._store.run_all([_reading(address, each, names) for each in message_ids])
        return [_receipt(reply) for reply in replies]

    async def wait(
        self, address: str, message_id: str, seconds: float, is_news: Callable[[str], bool] = lambda _: False
    ) -> StoredReceipt | None:
        """Do as `read` once the message is no longer held or its status `is_news`, or after `seconds`."""
        return await wait_for_change(
            self._store.wakeups,
            keys.inbox_receipt(address, message_id),
            seconds,
            lambda: self.read(address, message_id),
            lambda found: found is None or not found.is_held or is_news(found.status),
            lasts=lambda found: found.lasts if found else math.inf,
        )


def _reading(address: str, message_id: str, names: Sequence[str]) -> Step:
    receipt = keys.inbox_receipt(address, message_id)
    return inbox_receipt(inbox=keys.inbox(address), receipt=receipt, names=names)


def _receipt(reply: object) -> StoredReceipt | None:
    match cast("list[Any]", reply):
        case [b"receipt", now, epoch, is_held, flat]:
            return StoredReceipt(now, epoch.decode(), bool(is_held), fields_of(flat))
        case _:
            return None
