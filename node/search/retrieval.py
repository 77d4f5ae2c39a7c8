"""The ways in which a web process finds entities: with the query engine, in a worker's memory, or by itself.

Each way takes a request and returns ranked entities; `service` adds texts and links.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, cast

from node.search.corpus import OWN, Corpus, PostRef
from node.search.engines.redisearch import QueryEngine
from node.search.indexing.documents import NOTED_CHARACTERS, marks_of_own, marks_of_replies
from node.search.ranking import (
    CANDIDATES,
    REPLY_CANDIDATES,
    MissingFacts,
    NearEntity,
    Nearness,
    RankedEntities,
    Ranking,
    SearchRequest,
    TextMatches,
    by_text,
    ranked_among,
)
from node.search.rpc.client import QueryVector, WorkerClient
from node.search.work import SearchWork
from node.store import CommandFailed, Store, StoreUnavailable, ids
from node.store.search_keys import SearchKeys
from node.text.terms import MARK, QueryTerms, marks_of, terms_of

MAX_MARKS = 262_144
"""Marks of candidates that one search looks at: as many as a hundred long entities have. The remaining candidates,
which rank lower, are scored by what the engine has found."""

MARKS_A_CHARACTER = 2
"""Marks that take as long to look at as one character of text."""

ENTITIES_AT_ONCE = 32
"""Entities that are read in one round trip."""

SCANNED_ENTITIES = 2000
"""Open entities, the newest ones, that a web process looks through itself when no worker answers."""

UNINDEXED_ENTITIES = 100
"""Maximum number of the SCANNED_ENTITIES whose texts are read because they have no document yet."""

UNINDEXED_CHARACTERS = 100_000
"""Maximum number of characters that are read of all UNINDEXED_ENTITIES together."""


class KnownMarks(NamedTuple):
    """What is known about the marks of candidates and need not be read."""

    own: Mapping[str, bytes]
    """Marks of the entities' own texts, by entity."""
    own_complete: bool
    """Whether no entity outside `own` has any of the terms in its own text."""
    replied: Collection[str] | None
    """All entities of which a reply contains any of the terms; None if these are not known."""


UNKNOWN_MARKS = KnownMarks({}, False, None)


class EngineRetriever:
    """Asks the query engine, using the vector of the query if a worker provides it in time."""

    def __init__(self, engine: QueryEngine, keys: SearchKeys, searched: Store, workers: WorkerClient) -> None:
        self._engine = engine
        self._keys = keys
        self._searched = searched
        self._workers = workers

    async def find(self, request: SearchRequest, work: SearchWork) -> RankedEntities:
        """Return the matches. Raises StoreUnavailable, or CommandFailed if the engine has changed meanwhile."""
        if request.among is not None:
            return await self._find_among(request.among, request, work)
        query = QueryTerms(request.text)
        (text, known), (vector, nearest) = await asyncio.gather(
            self._by_text(query), self._by_meaning(request.text, work)
        )
        shares = TermCoverage(self._searched, self._keys, query, known, work)
        async with work.reading():
            ranking = Ranking(nearest, text, await shares.read(list(text.entities)), query.least)
            ranking.contain(await shares.read(ranking.unshared(request)))
            others, without_vectors = await self._read_missing(vector, ranking.missing(request))
        return ranking.ranked(request, others, without_vectors, "both" if vector else "text")

    async def _find_among(self, entities: Sequence[str], request: SearchRequest, work: SearchWork) -> RankedEntities:
        vector = await self._vector_of(request.text, work)
        nearness, _ = await self._read_missing(vector, MissingFacts(entities, {}))
        terms = TermCoverage(self._searched, self._keys, QueryTerms(request.text), UNKNOWN_MARKS, work)
        async with work.reading():
            shares = await terms.read(entities)
        return ranked_among(request, nearness.values(), shares, "both" if vector else "text")

    async def _by_text(self, query: QueryTerms) -> tuple[TextMatches, KnownMarks]:
        if not query.terms:
            return by_text([], []), KnownMarks({}, True, ())
        own, replies, marks = await self._engine.by_text(query.terms)
        text = by_text(own, replies)
        return text, KnownMarks(marks, len(own) < CANDIDATES, text.replies if len(replies) < REPLY_CANDIDATES else None)

    async def _by_meaning(self, query: str, work: SearchWork) -> tuple[QueryVector | None, list[NearEntity]]:
        for _ in range(2):
            vector = await self._vector_of(query, work)
            if vector is None:
                break
            try:
                return vector, await self._engine.by_meaning(vector.version, vector.vector)
            except CommandFailed:
                self._workers.forget()  # another index version has replaced that of the vector
        return None, []

    async def _vector_of(self, query: str, work: SearchWork) -> QueryVector | None:
        try:
            found = await self._workers.vector_of(query, ids.site_name(work.client))
        except StoreUnavailable:  # workers are asked through the main Redis; the searched Redis may still answer
            return None
        return found if found and found.vector else None

    async def _read_missing(
        self, vector: QueryVector | None, missing: MissingFacts
    ) -> tuple[Nearness, Collection[str]]:
        """Return how near entities are, and which of them were found by a post that has no vectors."""
        if vector is None or not (missing.nearness or missing.replies):
            return {}, ()
        try:
            return await self._engine.read_missing(vector.version, vector.vector, missing)
        except CommandFailed:
            return {}, ()


class WorkerMemoryRetriever:
    """Asks a worker that has the index in memory. If no worker answers in time, looks through the newest entities."""

    def __init__(self, corpus: Corpus, searched: Store, workers: WorkerClient) -> None:
        self._corpus = corpus
        self._searched = searched
        self._workers = workers

    async def find(self, request: SearchRequest, work: SearchWork) -> RankedEntities:
        """Return the matches. Raises StoreUnavailable."""
        found = await self._workers.find(request, ids.site_name(work.client))
        if found is not None:
            return found
        async with work.reading():
            return await self._scan(request, work)

    async def _scan(self, request: SearchRequest, work: SearchWork) -> RankedEntities:
        """Return the matches by text, ordered by share, then by last activity."""
        query = QueryTerms(request.text)
        if not query.terms:
            return RankedEntities([], "text")
        entities = request.among
        if entities is None:
            entities = await self._corpus.source.newest_open(SCANNED_ENTITIES)
        indexed = TermCoverage(self._searched, self._corpus.keys, query, UNKNOWN_MARKS, work)
        shares = await indexed.read(entities)
        await self._read_unindexed(query, indexed.unmarked[:UNINDEXED_ENTITIES], shares, work)
        return ranked_among(request, (), shares, "text")

    async def _read_unindexed(
        self, query: QueryTerms, entities: Sequence[str], shares: dict[str, float], work: SearchWork
    ) -> None:
        """Add the shares of entities that have no document to `shares`."""
        left = UNINDEXED_CHARACTERS
        for start in range(0, len(entities), ENTITIES_AT_ONCE):
            some = [PostRef(entity, OWN) for entity in entities[start : start + ENTITIES_AT_ONCE]]
            posts, unreachable = await self._corpus.read_reachable(some)
            if unreachable:
                raise StoreUnavailable("a part of what is searched cannot be read")
            for ref, post in posts.items():
                if left > 0:
                    text = f"{post.title}\n{post.body[:NOTED_CHARACTERS]}"
                    shares[ref.entity_id] = query.share(marks_of(terms_of(text)))
                    left -= len(text)
                    await work.spend(len(text))


class TermCoverage:
    """Determines the share of a query's terms that entities contain, until MAX_MARKS have been looked at."""

    def __init__(
        self, searched: Store, keys: SearchKeys, query: QueryTerms, known: KnownMarks, work: SearchWork
    ) -> None:
        self._searched = searched
        self._keys = keys
        self._query = query
        self._known = known
        self._work = work
        self._left = MAX_MARKS
        self.unmarked: list[str] = []
        """The entities read so far whose own text has no marks, because it is not indexed or has no terms."""

    async def read(self, entities: Sequence[str]) -> dict[str, float]:
        """Return the shares of these entities. `entities` has the most promising ones first, because reading ends
        after MAX_MARKS. Raises StoreUnavailable, QueueFull."""
        shares: dict[str, float] = {}
        for start in range(0, len(entities), ENTITIES_AT_ONCE):
            some = entities[start : start + ENTITIES_AT_ONCE]
            own, replies = await self._marks(some)
            for entity in some:
                if self._left <= 0:
                    return shares
                of_own, of_replies = own.get(entity, b""), replies.get(entity, b"")
                shares[entity] = self._query.share(of_own, of_replies)
                if not of_own:
                    self.unmarked.append(entity)
                looked = (len(of_own) + len(of_replies)) // MARK
                self._left -= looked
                if self._work.count(looked // MARKS_A_CHARACTER):
                    await self._work.give_way()
        return shares

    async def _marks(self, entities: Sequence[str]) -> tuple[Mapping[str, bytes], Mapping[str, bytes]]:
        """Return the marks of the entities' own texts, and those of their replies."""
        known = self._known
        unread = [] if known.own_complete else [each for each in entities if each not in known.own]
        replied = entities if known.replied is None else [each for each in entities if each in known.replied]
        if not unread and not replied:
            return known.own, {}
        found = await self._searched.run_all(
            [
                *(marks_of_own(self._keys, each) for each in unread),
                *(marks_of_replies(self._keys, each) for each in replied),
            ]
        )
        marks = [each or b"" for each in cast("list[bytes | None]", found)]
        read = dict(zip(unread, marks, strict=False))
        return {**known.own, **read} if read else known.own, dict(zip(replied, marks[len(unread) :], strict=True))
