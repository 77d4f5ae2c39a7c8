"""Threads as search sees them: post by post. How the board keeps them is known to whoever implements `Threads`."""

from collections.abc import AsyncIterator, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from node.search.passages import Passage, of_reply, of_thread

INDEXED_REPLIES = 100
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
    def place(self) -> Place:
        """Where it is."""
        return Place(self.thread_id, self.seq)

    @property
    def text(self) -> str:
        """What can be found by text."""
        return self.body if self.seq else f"{self.title}\n{self.body}"

    def passages(self) -> list[Passage]:
        """What is embedded."""
        return of_reply(self.seq, self.body) if self.seq else of_thread(self.title, self.body)


class Threads(Protocol):
    """Reads the threads of the board. Every method raises StoreUnavailable."""

    async def statuses(self, thread_ids: Sequence[str]) -> list[str]:
        """`open`, `closed` or `hidden`; empty for a thread that there is not."""
        ...

    async def posts(self, places: Sequence[tuple[str, int]]) -> list[tuple[str, str, str]]:
        """Of each post its thread's status, its title and its body; empty where there is none.

        A place is a thread's id and the number of a reply, or 0 for the thread's own text. A reply has no title.
        """
        ...

    async def newest_replies(self, thread_id: str, most: int) -> list[tuple[int, str]]:
        """Numbers and bodies of a thread's newest replies, oldest first."""
        ...

    async def newest_open(self, most: int | None = None) -> list[str]:
        """Ids of open threads by newest activity, of all unless `most` is given."""
        ...

    async def count_open(self) -> int:
        """How many threads are open."""
        ...

    def scan(self, status: Literal["open", "closed"]) -> AsyncIterator[list[str]]:
        """Ids of all threads of a status, some at a time. A thread that changes meanwhile may come twice."""
        ...


async def read_posts(threads: Threads, places: Sequence[Place]) -> tuple[dict[Place, Post], set[str]]:
    """The posts of open threads among these, and which of the threads are not open. Raises StoreUnavailable."""
    posts: dict[Place, Post] = {}
    closed: set[str] = set()
    for place, (status, title, body) in zip(places, await threads.posts(places), strict=True):
        if status != "open":
            closed.add(place.thread_id)
        elif title or body:
            posts[place] = Post(*place, body, title)
    return posts, closed


async def read_thread(threads: Threads, thread_id: str) -> list[Post]:
    """All posts of a thread that are indexed, oldest first; none if it is not open. Raises StoreUnavailable."""
    own, _ = await read_posts(threads, [Place(thread_id, OWN)])
    replies = await threads.newest_replies(thread_id, INDEXED_REPLIES) if own else []
    return [*own.values(), *(Post(thread_id, seq, body) for seq, body in replies)]
