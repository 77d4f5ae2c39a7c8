"""Threads as search reads them: what is indexed, post by post, and what snippets are cut from."""

from collections.abc import Sequence
from typing import NamedTuple, cast

import msgspec

from node.search.passages import Passage, of_reply, passages_of
from node.store import RedisReply, Store, keys
from node.store.decoding import fields_of

REPLIES = 100
"""Replies of one thread that are indexed: the newest."""

OWN = 0
"""The number of a thread's own title and body among its posts; replies count from 1."""


EVERY = -1
"""In place of a number: all posts of the thread."""


class Place(NamedTuple):
    """Where a post is."""

    thread_id: str
    seq: int

    @property
    def name(self) -> str:
        """Its name in the queue of what is to be indexed."""
        return self.thread_id if self.seq == EVERY else f"{self.thread_id}:{self.seq}"

    @classmethod
    def named(cls, name: str) -> "Place":
        """The place of that name."""
        thread_id, _, seq = name.partition(":")
        return cls(thread_id, int(seq) if seq else EVERY)


class Post(msgspec.Struct, frozen=True):
    """A thread's own text or one of its replies."""

    thread_id: str
    seq: int
    body: str
    title: str = ""
    """Of the thread, at its own text."""

    @property
    def text(self) -> str:
        """What can be found by text."""
        return self.body if self.seq else f"{self.title}\n{self.body}"

    def passages(self) -> list[Passage]:
        """What is embedded."""
        return of_reply(self.seq, self.body) if self.seq else passages_of(self.title, self.body, [])


class Head(msgspec.Struct, frozen=True):
    """An open thread without its replies."""

    title: str
    body: str


async def read_posts(store: Store, places: Sequence[Place]) -> tuple[list[Post], set[str]]:
    """Single posts, and which of their threads are not open. Raises StoreUnavailable."""
    threads = list({place.thread_id: None for place in places})
    own = [place.thread_id for place in places if place.seq == OWN]
    replies = [place for place in places if place.seq != OWN]
    found = await store.commands(
        [*map(_status_of, threads), *map(_head_of, own), *(_reply_of(place) for place in replies)]
    )
    told = iter(found)
    closed = {thread for thread in threads if next(told) != b"open"}
    posts = [_own(thread, head) for thread in own if (head := _head(next(told)))]
    for place in replies:
        posts += _replies(place.thread_id, next(told))
    return [post for post in posts if post.thread_id not in closed], closed


async def read_thread(store: Store, thread_id: str) -> list[Post]:
    """All posts of a thread that are indexed, oldest first; none if it is not open. Raises StoreUnavailable."""
    head, entries = await store.commands(
        [_head_of(thread_id), ("XREVRANGE", keys.replies(thread_id), "+", "-", "COUNT", REPLIES)]
    )
    found = _head(head)
    if found is None:
        return []
    return [_own(thread_id, found), *reversed(_replies(thread_id, entries))]


async def read_heads(store: Store, thread_ids: Sequence[str]) -> list[Head | None]:
    """The threads without their replies, None for each that is not open. Raises StoreUnavailable."""
    return [_head(reply) for reply in await store.commands(map(_head_of, thread_ids))]


async def read_replies(store: Store, places: Sequence[Place]) -> dict[Place, str]:
    """The texts of these replies, as far as there are any. Raises StoreUnavailable."""
    found = await store.commands(map(_reply_of, places))
    posts = [post for place, entries in zip(places, found, strict=True) for post in _replies(place.thread_id, entries)]
    return {Place(post.thread_id, post.seq): post.body for post in posts}


async def open_ones(store: Store, thread_ids: Sequence[str]) -> set[str]:
    """Those of the threads that may be found. Raises StoreUnavailable."""
    found = await store.commands(map(_status_of, thread_ids))
    return {thread_id for thread_id, status in zip(thread_ids, found, strict=True) if status == b"open"}


def _status_of(thread_id: str) -> tuple[str, ...]:
    return "HGET", keys.thread(thread_id), "status"


def _head_of(thread_id: str) -> tuple[str, ...]:
    return "HMGET", keys.thread(thread_id), "status", "title", "body"


def _head(reply: RedisReply) -> Head | None:
    status, title, body = cast("list[bytes | None]", reply)
    if status != b"open" or title is None or body is None:
        return None
    return Head(title.decode(), body.decode())


def _own(thread_id: str, head: Head) -> Post:
    return Post(thread_id, OWN, head.body, head.title)


def _reply_of(place: Place) -> tuple[str, ...]:
    entry = f"0-{place.seq}"
    return "XRANGE", keys.replies(place.thread_id), entry, entry


def _replies(thread_id: str, reply: RedisReply) -> list[Post]:
    entries = cast("list[tuple[bytes, Sequence[bytes]]]", reply)
    return [Post(thread_id, int(entry[2:]), fields_of(fields)[b"body"].decode()) for entry, fields in entries]
