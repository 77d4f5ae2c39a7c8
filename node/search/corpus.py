"""What can be searched: the entities of a feature, such as threads or contracts, post by post.

Only implementations of `CorpusSource` know where texts come from; the rest of this folder is the same for every corpus.
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
"""How many replies of an entity are indexed: the newest."""

OWN = 0
"""The number of an entity's own title and body among its posts; replies count from 1."""

EVERY = -1
"""Takes the place of a number, for all posts of an entity."""


class PostRef(NamedTuple):
    """Names a post, or with EVERY all posts of an entity."""

    entity_id: str
    seq: int

    @property
    def name(self) -> str:
        """Its name in the queue of what is to be indexed."""
        return self.entity_id if self.seq == EVERY else f"{self.entity_id}:{self.seq}"

    @classmethod
    def named(cls, name: str) -> "PostRef":
        """The reference of that name."""
        entity_id, _, seq = name.partition(":")
        return cls(entity_id, int(seq) if seq else EVERY)


class Post(msgspec.Struct, frozen=True):
    """An entity's own text or one of its replies."""

    entity_id: str
    seq: int
    body: str
    title: str = ""
    """The title of the entity, with its own text; empty for a reply."""

    @property
    def ref(self) -> PostRef:
        """How others refer to it."""
        return PostRef(self.entity_id, self.seq)

    @property
    def text(self) -> str:
        """The text by which it is found."""
        return self.body if self.seq else f"{self.title}\n{self.body}"

    def passages(self) -> list[Passage]:
        """The pieces that are embedded."""
        return of_reply(self.seq, self.body) if self.seq else of_own(self.title, self.body)


class CorpusSource(Protocol):
    """Reads the texts of a feature. An entity is `open` while it can be found. Every method raises StoreUnavailable."""

    async def statuses(self, entity_ids: Sequence[str], /) -> list[str]:
        """`open`, or another word for an entity that is not to be found; empty where there is none."""
        ...

    async def posts(self, refs: Sequence[tuple[str, int]], /) -> list[tuple[str, str, str]]:
        """For each post the status of its entity, its title and its body; empty texts where there is none.

        A ref is an entity's id and the number of a reply, or 0 for the entity's own text. A reply has no title. The
        status is `unreachable` where the server that holds the entity cannot be read, and others can.
        """
        ...

    async def newest_replies(self, entity_id: str, most: int, /) -> list[tuple[int, str]]:
        """Numbers, from 1, and bodies of an entity's newest replies, oldest first; none where there are no replies."""
        ...

    async def newest_open(self, most: int | None = None) -> list[str]:
        """Ids of open entities, the newest first, of all unless `most` is given."""
        ...

    async def count_open(self) -> int:
        """How many entities are open."""
        ...

    def scan_open(self) -> AsyncIterator[list[str]]:
        """Ids of all open entities, some at a time. One that changes meanwhile may come twice."""
        ...


class Corpus(NamedTuple):
    """The entities of one feature, which are searched together. Every method raises StoreUnavailable."""

    name: str
    """Lower-case letters; part of keys and of the names of indexes."""
    source: CorpusSource
    events: tuple[str, ...]
    """Prefixes, such as `thread.`, of the kinds of events after which an entity is indexed, or removed."""
    concerned: int = OWN
    """What an event without a number (`seq`) is about: the entity's own text, or EVERY post of it."""
    reindexed_by: tuple[str, ...] = ()
    """Kinds of events after which EVERY post is reindexed, whatever number they have."""
    returning: tuple[str, ...] = ()
    """Statuses from which an entity may return to open with the same text: its vectors are kept for that."""

    @property
    def keys(self) -> SearchKeys:
        """Its keys in Redis."""
        return SearchKeys(self.name)

    def to_index(self, events: Iterable[Event]) -> dict[PostRef, str]:
        """What is to be indexed after these events, and the site that it came from. An entity whose site is not known
        counts as a site of its own."""
        return {
            self._ref(event): event.fields.get("site") or ids.site_name(event.fields.get("client") or event.entity)
            for event in events
            if event.kind.startswith(self.events)
        }

    def _ref(self, event: Event) -> PostRef:
        """What is to be indexed after an event."""
        number = EVERY if event.kind in self.reindexed_by else int(event.fields.get("seq", self.concerned))
        return PostRef(event.entity, number)

    async def read_posts(self, refs: Sequence[PostRef]) -> tuple[dict[PostRef, Post], dict[str, str]]:
        """The posts of open entities among these, and the statuses of those entities that are not open.

        Raises StoreUnavailable also where only some of them cannot be read.
        """
        posts, closed, unreachable = _sorted(zip(refs, await self.source.posts(refs), strict=True))
        if unreachable:
            raise StoreUnavailable("a part of what is searched cannot be read")
        return posts, closed

    async def read_reachable(self, refs: Sequence[PostRef]) -> tuple[dict[PostRef, Post], set[str]]:
        """The posts of open entities among these, without those that cannot be read at all; and the entities that are
        out of reach. Raises StoreUnavailable if all servers are.
        """
        posts, _, unreachable = _sorted((await read_each(refs, self.source.posts)).items())
        return posts, unreachable

    async def read_entity(self, entity_id: str) -> list[Post]:
        """All posts of an entity that are indexed, oldest first; none if it is not open."""
        own, _ = await self.read_posts([PostRef(entity_id, OWN)])
        replies = await self.source.newest_replies(entity_id, INDEXED_REPLIES) if own else []
        return [*own.values(), *(Post(entity_id, seq, body) for seq, body in replies)]


def _sorted(
    read: Iterable[tuple[PostRef, tuple[str, str, str]]],
) -> tuple[dict[PostRef, Post], dict[str, str], set[str]]:
    """What a source has read, sorted: posts of open entities, statuses of others, and entities out of reach."""
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
