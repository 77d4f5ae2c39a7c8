"""Threads as search reads them: what is indexed, and what snippets are cut from."""

import asyncio
from collections.abc import Sequence
from typing import cast

import msgspec

from node.board.passage import Passage, passages_of
from node.store import Store, keys
from node.store.reply import fields_of

REPLIES = 100
"""Replies of one thread that are indexed: the newest."""

CHARACTERS = 100_000
"""Of one thread that can be found by text: title, body, then the newest replies."""

Reply = tuple[int, str]


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
    replies: list[Reply]

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


async def read_source(store: Store, thread_id: str) -> Source | None:
    """The thread, or None if it is not open. Raises StoreUnavailable."""
    head, replies = await asyncio.gather(read_head(store, thread_id), read_replies(store, thread_id))
    return Source(thread_id, head.title, head.body, replies) if head else None


async def read_head(store: Store, thread_id: str) -> Head | None:
    """The thread without its replies, or None if it is not open. Raises StoreUnavailable."""
    status, title, body, replies = cast(
        "list[bytes | None]",
        await store.command("HMGET", keys.thread(thread_id), "status", "title", "body", "reply_count"),
    )
    if status != b"open" or title is None or body is None:
        return None
    return Head(title.decode(), body.decode(), int(replies or 0))


async def is_open(store: Store, thread_id: str) -> bool:
    """Whether the thread may be found. Raises StoreUnavailable."""
    return await store.command("HGET", keys.thread(thread_id), "status") == b"open"


async def read_replies(store: Store, thread_id: str, most: int = REPLIES) -> list[Reply]:
    """The newest replies, oldest of them first. Raises StoreUnavailable."""
    reply = await store.command("XREVRANGE", keys.replies(thread_id), "+", "-", "COUNT", most)
    return [_reply(*entry) for entry in reversed(cast("list[tuple[bytes, Sequence[bytes]]]", reply))]


async def read_reply(store: Store, thread_id: str, seq: int) -> str:
    """The text of one reply, empty if there is none. Raises StoreUnavailable."""
    entries = cast(
        "list[tuple[bytes, Sequence[bytes]]]",
        await store.command("XRANGE", keys.replies(thread_id), f"0-{seq}", f"0-{seq}"),
    )
    return _reply(*entries[0])[1] if entries else ""


def _reply(entry: bytes, fields: Sequence[bytes]) -> Reply:
    return int(entry[2:]), fields_of(fields)[b"body"].decode()
