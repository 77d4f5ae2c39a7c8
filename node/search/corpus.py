"""A corpus: the entities of one feature, such as threads or contracts, as search sees them, post by post.

Only the implementations of `CorpusSource` know where texts come from. The rest of this folder is the same for every
corpus.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from node.search.passages import Passage, of_own, of_reply
from node.store import StoreUnavailable, ids
from node.store.lists import UNREACHABLE
from node.store.outbox import Event
from node.store.search_keys import SearchKeys
from node.store.unreadable import read_each

INDEXED_REPLIES = 100
"""Maximum number of indexed replies of one entity: the newest ones."""

OWN = 0
"""Post number of an entity's own title and body. Replies are numbered from 1."""

EVERY = -1
"""Used in place of a post number to mean all posts of an entity."""


class PostRef(NamedTuple):
    """Refers to one post, or with EVERY to all posts of an entity."""

    entity_id: str
    seq: int

    @property
    def name(self) -> str:
        """The name of this reference in the index queue."""
        return self.entity_id if self.seq == EVERY else f"{self.entity_id}:{self.seq}"

    @classmethod
    def named(cls, name: str) -> "PostRef":
        """Return the reference that has this name."""
        entity_id, _, seq = name.partition(":")
        return cls(entity_id, int(seq) if seq else EVERY)


class Post(msgspec.Struct, frozen=True):
    """An entity's own text or one of its replies."""

    entity_id: str
    seq: int
    body: str
    title: str = ""
    """The title of the entity if this is its own text; empty for a reply."""

    @property
    def ref(self) -> PostRef:
        """The reference to this post."""
        return PostRef(self.entity_id, self.seq)

    @property
    def text(self) -> str:
        """The text by which the post is found."""
        return self.body if self.seq else f"{self.title}\n{self.body}"

    def passages(self) -> list[Passage]:
        """Return the passages of the post, which are embedded one by one."""
        return of_reply(self.seq, self.body) if self.seq else of_own(self.title, self.body)


class CorpusSource(Protocol):
    """Reads the texts of a feature. An entity can be found while it is `open`. Every method raises StoreUnavailable."""

    async def statuses(self, entity_ids: Sequence[str], /) -> list[str]:
        """Return the status of each entity: `open`, another word if it must not be found, empty if there is none."""
        ...

    async def posts(self, refs: Sequence[tuple[str, int]], /) -> list[tuple[str, str, str]]:
        """Return the status of the entity, the title and the body of each post; empty texts if there is no such post.

        A ref is the id of an entity and the number of a reply, or 0 for the entity's own text. A reply has no title.
        The status is `unreachable` if the server that holds the entity cannot be read although others can.
        """
        ...

    async def newest_replies(self, entity_id: str, most: int, /) -> list[tuple[int, str]]:
        """Return the numbers (from 1) and bodies of an entity's newest replies, oldest first."""
        ...

    async def newest_open(self, most: int | None = None) -> list[str]:
        """Return the ids of the open entities, newest first: of all of them, or of at most `most`."""
        ...

    async def count_open(self) -> int:
        """Return the number of open entities."""
        ...

    def scan_open(self) -> AsyncIterator[list[str]]:
        """Yield the ids of all open entities in batches. An entity that changes meanwhile may be yielded twice."""
        ...


class Corpus(NamedTuple):
    """The entities of one feature, which are searched together. Methods that read raise StoreUnavailable."""

    name: str
    """Lower-case letters; part of keys and of the names of indexes."""
    source: CorpusSource
    events: tuple[str, ...]
    """Prefixes of event kinds, such as `thread.`. After such an event the entity is indexed, or removed if not open."""
    concerned: int = OWN
    """The post that an event without a number (`seq`) concerns: the entity's own text (OWN), or EVERY post."""
    reindexed_by: tuple[str, ...] = ()
    """Kinds of events after which EVERY post is reindexed, even if the event has a number."""
    returning: tuple[str, ...] = ()
    """Statuses from which an entity may become open again with the same text. Its vectors are kept for that case."""

    @property
    def keys(self) -> SearchKeys:
        """The Redis keys of this corpus."""
        return SearchKeys(self.name)

    def to_index(self, events: Iterable[Event]) -> dict[PostRef, str]:
        """Return the posts to index after these events, each with the name of the site that it came from.

        If the site is not known, the entity counts as a site of its own.
        """
        return {
            self._ref(event): event.fields.get("site") or ids.site_name(event.fields.get("client") or event.entity)
            for event in events
            if event.kind.startswith(self.events)
        }

    def _ref(self, event: Event) -> PostRef:
        """Return the post, or EVERY post, to index after an event."""
        number = EVERY if event.kind in self.reindexed_by else int(event.fields.get("seq", self.concerned))
        return PostRef(event.entity, number)

    async def read_posts(self, refs: Sequence[PostRef]) -> tuple[dict[PostRef, Post], dict[str, str]]:
        """Return those of the posts whose entities are open, and the statuses of the entities that are not open.

        Raises StoreUnavailable even if only some of the posts cannot be read.
        """
        posts, closed, unreachable = _sorted(zip(refs, await self.source.posts(refs), strict=True))
        if unreachable:
            raise StoreUnavailable("a part of what is searched cannot be read")
        return posts, closed

    async def read_reachable(self, refs: Sequence[PostRef]) -> tuple[dict[PostRef, Post], set[str]]:
        """Return those of the posts that can be read and whose entities are open, and the ids of the entities that
        cannot be reached. Raises StoreUnavailable if no server can be reached.
        """
        posts, _, unreachable = _sorted((await read_each(refs, self.source.posts)).items())
        return posts, unreachable

    async def read_entity(self, entity_id: str) -> list[Post]:
        """Return all indexed posts of an entity, oldest first; none if the entity is not open."""
        own, _ = await self.read_posts([PostRef(entity_id, OWN)])
        replies = await self.source.newest_replies(entity_id, INDEXED_REPLIES) if own else []
        return [*own.values(), *(Post(entity_id, seq, body) for seq, body in replies)]


def _sorted(
    read: Iterable[tuple[PostRef, tuple[str, str, str]]],
) -> tuple[dict[PostRef, Post], dict[str, str], set[str]]:
    """Sort what a source has read: posts of open entities, statuses of other entities, ids of unreachable entities."""
    posts: dict[PostRef, Post] = {}
    closed: dict[str, str] = {}
    unreachable: set[str] = set()
    for ref, (status, title, body) in read:
        if status == UNREACHABLE:
            unreachable.add(ref.entity_id)
        elif status != "open":
            closed[ref.entity_id] = status
        elif title or body:
            posts[ref] = Post(*ref, body, title)
    return posts, closed, unreachable
