"""The ways in which a web process finds threads: by the query engine, by a worker's memory, or by itself.

Each takes a question and gives matches in order; texts and links are added by `search`.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol, cast

from node.board.asking import Vector, Workers
from node.board.engine_redisearch import QueryEngine
from node.board.index import NOTED, marks_of_threads
from node.board.ranking import Found, Match, Near, Question, ranked
from node.board.search_source import read_head
from node.store import CommandFailed, Store, keys
from node.text.terms import QueryTerms, marks_of, terms_of

SCANNED = 2000
"""Open threads that a web process looks through when nobody else can: the newest."""

SCANNED_AT_ONCE = 100
"""Of them between two turns for other requests, about a millisecond."""

UNINDEXED = 100
"""Of them that have no document yet and are read themselves."""


class Finder(Protocol):
    """Finds threads."""

    async def find(self, question: Question) -> Found:
        """The matches. Raises StoreUnavailable, CommandFailed if the engine is not what it was."""
        ...


class QueryVectors(Protocol):
    """Knows the vectors of queries (`asking.Workers`)."""

    async def vector_of(self, query: str) -> Vector | None: ...

    def forget(self) -> None: ...


class EngineFinder:
    """Asks the query engine, with the vector of the query if a worker gives one in time."""

    def __init__(self, engine: QueryEngine, documents: Store, workers: QueryVectors) -> None:
        self._engine = engine
        self._documents = documents
        self._workers = workers

    async def find(self, question: Question) -> Found:
        asked = QueryTerms(question.text)
        by_text, (vector, by_meaning) = await asyncio.gather(self._by_text(asked), self._by_meaning(question.text))
        shares = {thread: asked.share(marks) for thread, marks in by_text}
        near = {each.thread_id: each for each in by_meaning}
        unread = [thread for thread in near if thread not in shares] if asked.terms else []
        marks, others = await asyncio.gather(
            marks_of_threads(self._documents, unread),
            self._meanings(vector, [thread for thread in shares if thread not in near]),
        )
        shares |= {thread: asked.share(held) for thread, held in zip(unread, marks, strict=True)}
        by_meaning_only = list(near)
        near |= {each.thread_id: each for each in others}
        matches = ranked(question, by_meaning_only, [thread for thread, _ in by_text], near, shares)
        return Found(matches, "both" if vector else "text")

    async def _by_text(self, asked: QueryTerms) -> list[tuple[str, bytes]]:
        return await self._engine.by_text(asked.terms) if asked.terms else []

    async def _by_meaning(self, query: str) -> tuple[Vector | None, list[Near]]:
        for _ in range(2):
            vector = await self._workers.vector_of(query)
            if vector is None:
                break
            try:
                return vector, await self._engine.by_meaning(vector.generation, vector.vector)
            except CommandFailed:
                self._workers.forget()  # another generation has taken its place
        return None, []

    async def _meanings(self, vector: Vector | None, threads: Sequence[str]) -> list[Near]:
        if vector is None:
            return []
        try:
            return await self._engine.meanings(vector.generation, vector.vector, threads)
        except CommandFailed:
            return []


class MemoryFinder:
    """Asks a worker that holds the index in memory; if none answers in time, looks through the newest threads."""

    def __init__(self, store: Store, documents: Store, workers: Workers) -> None:
        self._store = store
        self._documents = documents
        self._workers = workers

    async def find(self, question: Question) -> Found:
        return await self._workers.find(question) or Found(await self._scan(question), "text")

    async def _scan(self, question: Question) -> list[Match]:
        """By text, in the order of shares, then of activity."""
        asked = QueryTerms(question.text)
        newest = await self._store.command("ZREVRANGE", keys.OPEN_THREADS, 0, SCANNED - 1)
        threads = [name.decode() for name in cast("Sequence[bytes]", newest)]
        shares: dict[str, float] = {}
        unindexed = UNINDEXED
        for start in range(0, len(threads) if asked.terms else 0, SCANNED_AT_ONCE):
            some = threads[start : start + SCANNED_AT_ONCE]
            held = dict(zip(some, await marks_of_threads(self._documents, some), strict=True))
            missing = [thread for thread in some if not held[thread]][:unindexed]
            unindexed -= len(missing)
            heads = await asyncio.gather(*(read_head(self._store, thread) for thread in missing))
            for thread, head in zip(missing, heads, strict=True):
                held[thread] = marks_of(terms_of(f"{head.title}\n{head.body[:NOTED]}")) if head else b""
            shares |= {thread: share for thread in some if (share := asked.share(held[thread]))}
        by_text = sorted(shares, key=lambda thread: shares[thread], reverse=True)
        return ranked(question, [], by_text, {}, shares)
