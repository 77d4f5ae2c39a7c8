"""How a web process finds entities: with the query engine, with a worker's memory, or by itself.

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
"""Marks of candidates that one search looks at: those of a hundred long entities. Further candidates, which rank lower,
count as the engine has found them."""

MARKS_A_CHARACTER = 2
"""Marks that take as long to look at as one character of a text."""

ENTITIES_AT_ONCE = 32
"""Entities that are read together."""

SCANNED_ENTITIES = 2000
"""Open entities that a web process looks through when nobody else can: the newest."""

UNINDEXED_ENTITIES = 100
"""How many of those it reads itself, because they have no document yet."""

UNINDEXED_CHARACTERS = 100_000
"""Characters that it reads of those in all."""


class KnownMarks(NamedTuple):
    """What is known of the marks of candidates, so that it need not be read."""

    own: Mapping[str, bytes]
    """The known marks of own texts, by entity."""
    own_complete: bool
    """Whether the own text of no other entity contains any of the terms."""
    replied: Collection[str] | None
    """The only entities of which a reply contains any of the terms; None if that is not known."""


UNKNOWN_MARKS = KnownMarks({}, False, None)


class EngineRetriever:
    """Asks the query engine, with the vector of the query if a worker provides one in time."""

    def __init__(self, engine: QueryEngine, keys: SearchKeys, searched: Store, workers: WorkerClient) -> None:
        self._engine = engine
        self._keys = keys
        self._searched = searched
        self._workers = workers

    async def find(self, request: SearchRequest, work: SearchWork) -> RankedEntities:
        """The matches. Raises StoreUnavailable, CommandFailed if the engine has changed meanwhile."""
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
                self._workers.forget()  # another index version has taken its place
        return None, []

    async def _vector_of(self, query: str, work: SearchWork) -> QueryVector | None:
        try:
            return await self._workers.vector_of(query, ids.site_name(work.client))
        except StoreUnavailable:  # where workers are asked; the search Redis may well be there
            return None

    async def _read_missing(
        self, vector: QueryVector | None, missing: MissingFacts
    ) -> tuple[Nearness, Collection[str]]:
        """How near entities are, and which of them have no vectors of what they were found by."""
        if vector is None or not (missing.nearness or missing.replies):
            return {}, ()
        try:
            return await self._engine.read_missing(vector.version, vector.vector, missing)
        except CommandFailed:
            return {}, ()


class WorkerMemoryRetriever:
    """Asks a worker that holds the index in memory; if none answers in time, looks through the newest entities."""

    def __init__(self, corpus: Corpus, searched: Store, workers: WorkerClient) -> None:
        self._corpus = corpus
        self._searched = searched
        self._workers = workers

    async def find(self, request: SearchRequest, work: SearchWork) -> RankedEntities:
        """The matches. Raises StoreUnavailable."""
        found = await self._workers.find(request, ids.site_name(work.client))
        if found is not None:
            return found
        async with work.reading():
            return await self._scan(request, work)

    async def _scan(self, request: SearchRequest, work: SearchWork) -> RankedEntities:
        """The matches by text, in the order of their shares, then of activity."""
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
        """Add the shares of entities that have no document."""
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
    """Finds out which share of a query's terms entities contain, until MAX_MARKS have been looked at."""

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
        """Entities of those read whose own text has no marks, because it is not indexed or has no terms."""

    async def read(self, entities: Sequence[str]) -> dict[str, float]:
        """The shares of these entities, the likeliest first. Raises StoreUnavailable, QueueFull."""
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
        """The marks of their own texts and of their replies."""
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
