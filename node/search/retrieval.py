"""The ways in which a web process finds threads: by the query engine, by a worker's memory, or by itself.

Each takes a question and gives matches in order; texts and links are added by `service`.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol, cast

from node.search.effort import Effort
from node.search.engines.redisearch import QueryEngine
from node.search.indexing.documents import NOTED, marks_of_own, marks_of_replies
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
from node.search.rpc.client import Vector, WorkerClient
from node.search.threads import read_heads
from node.store import CommandFailed, Store, keys
from node.store.bulk import bulk
from node.text.terms import MARK, QueryTerms, marks_of, terms_of

MARKS = 262_144
"""Marks of candidates that one search looks at: those of a hundred long threads. Threads beyond, which rank lower, are
known by what the engine says of them."""

MARKS_A_CHARACTER = 2
"""So many marks take as long to look at as one character of a text."""

TOGETHER = 32
"""Threads whose marks are read at a time."""

SCANNED = 2000
"""Open threads that a web process looks through when nobody else can: the newest."""

UNINDEXED = 100
"""Of them that have no document yet and are read themselves."""

UNINDEXED_CHARACTERS = 100_000
"""Of those, altogether."""


class Retriever(Protocol):
    """Finds threads."""

    async def find(self, question: SearchRequest, effort: Effort) -> RankedThreads:
        """The matches. Raises StoreUnavailable, CommandFailed if the engine is not what it was."""
        ...


class QueryVectors(Protocol):
    """Knows the vectors of queries (`node.search.rpc.client.Workers`)."""

    async def vector_of(self, query: str) -> Vector | None: ...

    def forget(self) -> None: ...


class EngineRetriever:
    """Asks the query engine, with the vector of the query if a worker gives one in time."""

    def __init__(self, engine: QueryEngine, documents: Store, workers: QueryVectors) -> None:
        self._engine = engine
        self._documents = documents
        self._workers = workers

    async def find(self, question: SearchRequest, effort: Effort) -> RankedThreads:
        asked = QueryTerms(question.text)
        (text, known), (vector, by_meaning) = await asyncio.gather(
            self._by_text(asked), self._by_meaning(question.text)
        )
        async with effort.reading():
            near = {each.thread_id: each for each in by_meaning}
            shares, others = await asyncio.gather(
                shares_of(self._documents, asked, candidates(text, near), effort, known),
                self._meanings(vector, [thread for thread in text.threads if thread not in near]),
            )
            shares |= {thread: max(shares.get(thread, 0.0), asked.least) for thread in text.threads}
            by_meaning_only = list(near)
            near |= {each.thread_id: each for each in others}
            matches = ranked(question, by_meaning_only, text.threads, near, shares, text.replies)
        return RankedThreads(matches, "both" if vector else "text")

    async def _by_text(self, asked: QueryTerms) -> tuple[ByText, "Known"]:
        if not asked.terms:
            return by_text([], []), Known({}, True, ())
        own, replies, marks = await self._engine.by_text(asked.terms)
        text = by_text(own, replies)
        return text, Known(marks, len(own) < CANDIDATES, text.replies if len(replies) < REPLY_CANDIDATES else None)

    async def _by_meaning(self, query: str) -> tuple[Vector | None, list[NearThread]]:
        for _ in range(2):
            vector = await self._workers.vector_of(query)
            if vector is None:
                break
            try:
                return vector, await self._engine.by_meaning(vector.generation, vector.vector)
            except CommandFailed:
                self._workers.forget()  # another generation has taken its place
        return None, []

    async def _meanings(self, vector: Vector | None, threads: Sequence[str]) -> list[NearThread]:
        if vector is None:
            return []
        try:
            return await self._engine.meanings(vector.generation, vector.vector, threads)
        except CommandFailed:
            return []


class WorkerMemoryRetriever:
    """Asks a worker that holds the index in memory; if none answers in time, looks through the newest threads."""

    def __init__(self, store: Store, documents: Store, workers: WorkerClient) -> None:
        self._store = store
        self._documents = documents
        self._workers = workers

    async def find(self, question: SearchRequest, effort: Effort) -> RankedThreads:
        found = await self._workers.find(question)
        if found is not None:
            return found
        async with effort.reading():
            return RankedThreads(await self._scan(question, effort), "text")

    async def _scan(self, question: SearchRequest, effort: Effort) -> list[RankedThread]:
        """By text, in the order of shares, then of activity."""
        asked = QueryTerms(question.text)
        if not asked.terms:
            return []
        newest = await self._store.command("ZREVRANGE", keys.OPEN_THREADS, 0, SCANNED - 1)
        threads = [name.decode() for name in cast("Sequence[bytes]", newest)]
        missing: list[str] = []
        shares = await shares_of(self._documents, asked, threads, effort, Known({}, False, None), missing)
        await self._read(asked, missing[:UNINDEXED], shares, effort)
        found = [thread for thread in threads if shares.get(thread)]
        found.sort(key=lambda thread: shares[thread], reverse=True)
        return ranked(question, [], found, {}, shares)

    async def _read(self, asked: QueryTerms, threads: Sequence[str], shares: dict[str, float], effort: Effort) -> None:
        """Add the shares of threads that have no document."""
        left = UNINDEXED_CHARACTERS
        for start in range(0, len(threads), TOGETHER):
            some = threads[start : start + TOGETHER]
            for thread, head in zip(some, await read_heads(self._store, some), strict=True):
                if head and left > 0:
                    text = f"{head.title}\n{head.body[:NOTED]}"
                    shares[thread] = asked.share(marks_of(terms_of(text)))
                    left -= len(text)
                    await effort.spend(len(text))


class Known(NamedTuple):
    """What needs not be read of candidates."""

    marks: Mapping[str, bytes]
    """Of their own texts."""
    own: bool
    """Whether no other one's own text contains any of the terms."""
    replied: Collection[str] | None
    """The only ones of which a reply contains any; None if that is not known."""


async def shares_of(
    documents: Store,
    asked: QueryTerms,
    threads: Sequence[str],
    effort: Effort,
    known: Known,
    missing: list[str] | None = None,
) -> dict[str, float]:
    """The shares of the terms that threads contain, the most likely threads first, until MARKS were looked at.

    Those that have no document are added to `missing`. Raises StoreUnavailable.
    """
    shares: dict[str, float] = {}
    left = MARKS
    for start in range(0, len(threads), TOGETHER):
        some = threads[start : start + TOGETHER]
        unread = [thread for thread in some if not known.own and thread not in known.marks]
        replied = [thread for thread in some if known.replied is None or thread in known.replied]
        read = await bulk(documents, [*map(marks_of_own, unread), *map(marks_of_replies, replied)])
        held = [cast("bytes | None", marks) or b"" for marks in read]
        own = dict(zip(unread, held, strict=False))
        replies = dict(zip(replied, held[len(unread) :], strict=True))
        for thread in some:
            marks, others = known.marks.get(thread) or own.get(thread, b""), replies.get(thread, b"")
            shares[thread] = asked.share(marks, others)
            if missing is not None and not marks:
                missing.append(thread)
            looked = (len(marks) + len(others)) // MARK
            await effort.spend(looked // MARKS_A_CHARACTER)
            left -= looked
            if left <= 0:
                return shares
    return shares
