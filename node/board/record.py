"""Decodes the records of threads and replies in Redis."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from node.board.model import Reply, ThreadStatus
from node.common.timestamps import timestamp
from node.store.decoding import number, text

THREAD_FIELDS = (
    *("status", "source", "title", "body", "author", "signature", "created_at", "last_reply_at", "reply_count"),
    *("closed_at", "hidden_replies", "signer"),
)
"""The fields of a thread that are read, in the order in which `thread_of` takes them. The payload of a relayed message
is not among them."""


Values = list[bytes | None]
"""The values of a thread's THREAD_FIELDS, as read."""

Row = tuple[str, Values]
"""The id of a thread, and its values."""


class StoredThread(msgspec.Struct, frozen=True):
    """The record of a thread; times in milliseconds since 1970."""

    id: str
    status: ThreadStatus
    source: Literal["board", "relay"]
    title: str
    body: str
    author: str | None
    signature: bytes | None
    created_at: int
    last_reply_at: int | None = None
    last_seq: int = 0
    """Number of the newest reply."""
    hidden_replies: frozenset[int] = frozenset()
    """Numbers of the replies that the operator has hidden or removed."""
    signer: str | None = None
    closed_at: int | None = None

    @property
    def reply_count(self) -> int:
        """Number of replies that readers see."""
        return self.last_seq - len(self.hidden_replies)


def thread_of(thread_id: str, values: Any) -> StoredThread | None:
    """Return the thread with these values of THREAD_FIELDS; None if there is no such thread."""
    status, source, title, body, author, signature, created_at, last_reply_at, reply_count, *others = values
    closed_at, hidden, signer = others
    if title is None:
        return None
    return StoredThread(
        id=thread_id,
        status=status.decode(),
        source="relay" if source == b"relay" else "board",
        title=title.decode(),
        body=body.decode(),
        author=text(author),
        signature=signature,
        created_at=int(created_at),
        last_reply_at=number(last_reply_at),
        last_seq=int(reply_count or 0),
        closed_at=number(closed_at),
        hidden_replies=hidden_in(hidden),
        signer=text(signer),
    )


def hidden_in(value: bytes | None) -> frozenset[int]:
    """Return the numbers in a thread's field `hidden_replies`, such as `,3,17,`."""
    return frozenset(map(int, filter(None, value.split(b",")))) if value else frozenset()


def has_status(row: Row, status: bytes) -> bool:
    """Return whether there is such a thread and it has that status."""
    _, (found, _, title, *_) = row
    return found == status and title is not None


def reply_of(thread_id: str, entry: str, fields: Mapping[bytes, bytes]) -> Reply:
    """Return a reply from its entry in the thread's stream, whose entry ids are 0-<seq>."""
    signature = fields.get(b"signature")
    return Reply(
        id=fields[b"id"].decode(),
        seq=int(entry[2:]),
        thread_id=thread_id,
        body=fields[b"body"].decode(),
        author=text(fields.get(b"author")),
        is_signed=signature is not None,
        signature=msgspec.json.decode(signature) if signature else None,
        created_at=timestamp(int(fields[b"at"])),
    )
