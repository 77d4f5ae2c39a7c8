"""Converts stored inboxes and messages to what their readers see."""

import msgspec

from node.common.timestamps import timestamp
from node.inbox.message_store import HeldMessage
from node.inbox.model import Answer, InboxContent, InboxMessage, LastSeen, Receipt
from node.inbox.receipt_store import StoredReceipt
from node.inbox.store import StoredInbox
from node.store.decoding import text
from node.store.limits import DAY_MS

HOUR_MS = 3600_000
SEEN: tuple[tuple[int, LastSeen], ...] = ((HOUR_MS, "hour"), (DAY_MS, "day"), (7 * DAY_MS, "week"))
"""What others learn about when the owner of an inbox was last seen: maximum age in milliseconds, and its name."""


def receipt_of(message_id: str, stored: StoredReceipt) -> Receipt:
    """Return the receipt of a message."""
    answer = msgspec.structs.asdict(answer_of(message_id, stored))
    return Receipt(**answer, sent_at=_time(stored, b"sent_at") or "", read_at=_time(stored, b"read_at"))


def answer_of(message_id: str, stored: StoredReceipt) -> Answer:
    """Return what the sender of a message is told about it."""
    fields = stored.fields
    return Answer(
        id=message_id,
        seq=int(fields[b"seq"]),
        status=stored.status,
        expires_at=timestamp(int(fields[b"expires_at"])),
        settled_at=_time(stored, b"settled_at"),
        reply=text(fields.get(b"reply")),
        reply_ciphertext=text(fields.get(b"reply_ciphertext")),
        artifact_ids=fields.get(b"artifact_ids", b"").decode().split(),
    )


def message_of(held: HeldMessage) -> InboxMessage:
    """Return a message as its owner reads it."""
    content = msgspec.json.decode(held.fields[b"text"], type=InboxContent)
    return InboxMessage(
        **msgspec.structs.asdict(content),
        id=held.fields[b"id"].decode(),
        seq=held.seq,
        sent_at=timestamp(int(held.fields[b"at"])),
        expires_at=timestamp(int(held.fields[b"expires_at"])),
    )


def last_seen_of(stored: StoredInbox) -> LastSeen:
    """Return roughly when the owner of an inbox was last seen, as others may know it."""
    ago = stored.now - int(stored.fields["seen"])
    for within, name in SEEN:
        if ago < within:
            return name
    return "older"


def _time(stored: StoredReceipt, name: bytes) -> str | None:
    return timestamp(int(stored.fields[name])) if name in stored.fields else None
