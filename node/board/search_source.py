"""Threads as search reads them: what is indexed, and what snippets are cut from."""

from collections.abc import Sequence
from typing import cast

import msgspec

from node.board.passage import Passage, passages_of
from node.store import Reply, Store, keys
from node.store.reply import fields_of

REPLIES = 100
"""Replies of one thread that are indexed: the newest."""

CHARACTERS = 100_000
"""Of one thread that can be found by text: title, body, then the newest replies."""

Numbered = tuple[int, str]
"""The number of a reply, and its text."""


class Head(msgspec.Struct, frozen=True):
    """An open thread without its replies."""

    title: str
    body: str
    reply_count: int


class Source(msgspec.Struct, frozen=True):
    """An open thread with its newest replies, oldest of them first."""

    thread_id: str
    title: str
    body: str
    replies: list[Numbered]

    @property
    def seq(self) -> int:
        """The newest reply that it includes, 0 for none: sources of one thread are ordered by it."""
        return self.replies[-1][0] if self.replies else 0

    def passages(self) -> list[Passage]:
        """What is embedded."""
        return passages_of(self.title, self.body, self.replies)

    def text(self) -> str:
        """What can be found by text."""
        parts = [self.title, self.body]
        room = CHARACTERS - len(self.title) - len(self.body)
        for _, body in reversed(self.replies):
            room -= len(body)
            if room < 0:
                break
            parts.append(body)
        return "\n".join(parts)


async def read_sources(store: Store, thread_ids: Sequence[str]) -> list[Source | None]:
    """The threads, None for each that is not open. Raises StoreUnavailable."""
    found = await store.commands(
        command for thread_id in thread_ids for command in (_head_of(thread_id), _replies_of(thread_id, REPLIES))
    )
    return [
        Source(thread_id, head.title, head.body, replies) if head else None
        for thread_id, head, replies in zip(thread_ids, map(_head, found[::2]), map(_replies, found[1::2]), strict=True)
    ]


async def read_head(store: Store, thread_id: str) -> Head | None:
    """The thread without its replies, or None if it is not open. Raises StoreUnavailable."""
    return _head(await store.command(*_head_of(thread_id)))


async def is_open(store: Store, thread_id: str) -> bool:
    """Whether the thread may be found. Raises StoreUnavailable."""
    return await store.command("HGET", keys.thread(thread_id), "status") == b"open"


async def read_replies(store: Store, thread_id: str, most: int = REPLIES) -> list[Numbered]:
    """The newest replies, oldest of them first. Raises StoreUnavailable."""
    return _replies(await store.command(*_replies_of(thread_id, most)))


async def read_reply(store: Store, thread_id: str, seq: int) -> str:
    """The text of one reply, empty if there is none. Raises StoreUnavailable."""
    entries = _replies(await store.command("XRANGE", keys.replies(thread_id), f"0-{seq}", f"0-{seq}"))
    return entries[0][1] if entries else ""


def _head_of(thread_id: str) -> tuple[str, ...]:
    return "HMGET", keys.thread(thread_id), "status", "title", "body", "reply_count"


def _head(reply: Reply) -> Head | None:
    status, title, body, replies = cast("list[bytes | None]", reply)
    if status != b"open" or title is None or body is None:
        return None
    return Head(title.decode(), body.decode(), int(replies or 0))


def _replies_of(thread_id: str, most: int) -> tuple[str | int, ...]:
    return "XREVRANGE", keys.replies(thread_id), "+", "-", "COUNT", most


def _replies(reply: Reply) -> list[Numbered]:
    entries = cast("list[tuple[bytes, Sequence[bytes]]]", reply)
    return [(int(entry[2:]), fields_of(fields)[b"body"].decode()) for entry, fields in reversed(entries)]
