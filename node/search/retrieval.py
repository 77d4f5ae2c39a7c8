"""The ways in which a web process finds threads: by the query engine, by a worker's memory, or by itself.

Each takes a request and gives ranked threads; texts and links are added by `service`.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, cast

from node.search.effort import Effort
from node.search.engines.redisearch import QueryEngine
from node.search.indexing.documents import NOTED_CHARACTERS, marks_of_own, marks_of_replies
from node.search.ranking import (
    CANDIDATES,
    REPLY_CANDIDATES,
    ByText,
    NearThread,
    RankedThread,
    RankedThreads,
    SearchRequest,
    by_text,
    candidates,
    ranked,
)
from node.search.rpc.client import QueryVector, WorkerClient
from node.search.threads import OWN, Place, Threads, read_posts
from node.store import CommandFailed, Store
from node.store.bulk import bulk
from node.text.terms import MARK, QueryTerms, marks_of, terms_of

MAX_MARKS = 262_144
"""Marks of candidates that one search looks at: those of a hundred long threads. Threads beyond, which rank lower, are
known by what the engine says of them."""

MARKS_A_CHARACTER = 2
"""So many marks take as long to look at as one character of a text."""

THREADS_AT_ONCE = 32
"""Threads of which something is read together."""

SCANNED_THREADS = 2000
"""Open threads that a web process looks through when nobody else can: the newest."""

UNINDEXED_THREADS = 100
"""Of them that have no document yet and are read themselves."""

UNINDEXED_CHARACTERS = 100_000
"""Of those, altogether."""


class KnownMarks(NamedTuple):
    """Which marks of candidates need not be read."""

    own: Mapping[str, bytes]
    """The marks of these threads' own texts are known."""
    own_complete: bool
    """Whether the own text of no other thread contains any of the terms."""
    replied: Collection[str] | None
    """The only threads of which a reply contains any of the terms; None if that is not known."""


class EngineRetriever:
    """Asks the query engine, with the vector of the query if a worker gives one in time."""

    def __init__(self, engine: QueryEngine, documents: Store, workers: WorkerClient) -> None:
        self._engine = engine
        self._documents = documents
        self._workers = workers

    async def find(self, request: SearchRequest, effort: Effort) -> RankedThreads:
        """The matches. Raises StoreUnavailable, CommandFailed if the engine is not what it was."""
        query = QueryTerms(request.text)
        (text, known), (vector, nearest) = await asyncio.gather(self._by_text(query), self._by_meaning(request.text))
        async with effort.reading():
            near = {each.thread_id for each in nearest}
            shares, others = await asyncio.gather(
                read_shares(self._documents, query, candidates(text, nearest), effort, known),
                self._meanings(vector, [thread for thread in text.threads if thread not in near]),
            )
            matches = ranked(request, nearest, text, others, shares, query.least)
        return RankedThreads(matches, "both" if vector else "text")

    async def _by_text(self, query: QueryTerms) -> tuple[ByText, KnownMarks]:
        if not query.terms:
            return by_text([], []), KnownMarks({}, True, ())
        own, replies, marks = await self._engine.by_text(query.terms)
        text = by_text(own, replies)
        return text, KnownMarks(marks, len(own) < CANDIDATES, text.replies if len(replies) < REPLY_CANDIDATES else None)

    async def _by_meaning(self, query: str) -> tuple[QueryVector | None, list[NearThread]]:
        for _ in range(2):
            vector = await self._workers.vector_of(query)
            if vector is None:
                break
            try:
                return vector, await self._engine.by_meaning(vector.version, vector.vector)
            except CommandFailed:
                self._workers.forget()  # another index version has taken its place
        return None, []

    async def _meanings(self, vector: QueryVector | None, threads: Sequence[str]) -> list[NearThread]:
        if vector is None:
            return []
        try:
            return await self._engine.meanings(vector.version, vector.vector, threads)
        except CommandFailed:
            return []


class WorkerMemoryRetriever:
    """Asks a worker that holds the index in memory; if none answers in time, looks through the newest threads."""

    def __init__(self, threads: Threads, documents: Store, workers: WorkerClient) -> None:
        self._threads = threads
        self._documents = documents
        self._workers = workers

    async def find(self, request: SearchRequest, effort: Effort) -> RankedThreads:
        """The matches. Raises StoreUnavailable."""
        found = await self._workers.find(request)
        if found is not None:
            return found
        async with effort.reading():
            return RankedThreads(await self._scan(request, effort), "text")

    async def _scan(self, request: SearchRequest, effort: Effort) -> list[RankedThread]:
        """By text, in the order of shares, then of activity."""
        query = QueryTerms(request.text)
        if not query.terms:
            return []
        threads = await self._threads.newest_open(SCANNED_THREADS)
        unindexed: list[str] = []
        shares = await read_shares(self._documents, query, threads, effort, KnownMarks({}, False, None), unindexed)
        await self._read_unindexed(query, unindexed[:UNINDEXED_THREADS], shares, effort)
        found = [thread for thread in threads if shares.get(thread)]
        found.sort(key=lambda thread: shares[thread], reverse=True)
        return ranked(request, [], ByText(found, {}, True), [], shares)

    async def _read_unindexed(
        self, query: QueryTerms, threads: Sequence[str], shares: dict[str, float], effort: Effort
    ) -> None:
        """Add the shares of threads that have no document."""
        left = UNINDEXED_CHARACTERS
        for start in range(0, len(threads), THREADS_AT_ONCE):
            some = [Place(thread, OWN) for thread in threads[start : start + THREADS_AT_ONCE]]
            posts, _ = await read_posts(self._threads, some)
            for place, post in posts.items():
                if left > 0:
                    text = f"{post.title}\n{post.body[:NOTED_CHARACTERS]}"
                    shares[place.thread_id] = query.share(marks_of(terms_of(text)))
                    left -= len(text)
                    await effort.spend(len(text))


async def read_shares(
    documents: Store,
    query: QueryTerms,
    threads: Sequence[str],
    effort: Effort,
    known: KnownMarks,
    unindexed: list[str] | None = None,
) -> dict[str, float]:
    """The shares of the terms that threads contain, the most likely threads first, until MAX_MARKS were looked at.

    Threads that have no document are added to `unindexed`. Raises StoreUnavailable.
    """
    shares: dict[str, float] = {}
    left = MAX_MARKS
    for start in range(0, len(threads), THREADS_AT_ONCE):
        some = threads[start : start + THREADS_AT_ONCE]
        unread = [thread for thread in some if not known.own_complete and thread not in known.own]
        replied = [thread for thread in some if known.replied is None or thread in known.replied]
        found = await bulk(documents, [*map(marks_of_own, unread), *map(marks_of_replies, replied)])
        marks = [each or b"" for each in cast("list[bytes | None]", found)]
        own = {**known.own, **dict(zip(unread, marks, strict=False))}
        replies = dict(zip(replied, marks[len(unread) :], strict=True))
        for thread in some:
            of_own, of_replies = own.get(thread, b""), replies.get(thread, b"")
            shares[thread] = query.share(of_own, of_replies)
            if unindexed is not None and not of_own:
                unindexed.append(thread)
            looked = (len(of_own) + len(of_replies)) // MARK
            await effort.spend(looked // MARKS_A_CHARACTER)
            left -= looked
            if left <= 0:
                return shares
    return shares
