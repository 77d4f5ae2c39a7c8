"""The service behind POST /api/v1/board/search: threads by meaning or text (SPEC 4.4, DESIGN 9)."""

import asyncio
from collections.abc import Sequence

import structlog

from node.board.asking import Workers
from node.board.engine import EngineChoice
from node.board.finders import EngineFinder, Finder, MemoryFinder
from node.board.index import Index
from node.board.model import Hit, Hits, SearchQuery
from node.board.passage import pieces, place_of
from node.board.ranking import Found, Match, Question
from node.board.search_source import Head, read_head, read_replies, read_reply
from node.board.snippet import snippet
from node.config import Settings
from node.refusal import Invalid
from node.store import CommandFailed, Store
from node.text.terms import QueryTerms

log = structlog.get_logger()

SPARE = 5
"""Matches asked for beyond the limit: some threads may have been closed since they were indexed."""

SNIPPET_REPLIES = 20
"""Replies in which a snippet is looked for: the newest."""


class Search:
    """Finds threads. `documents` is the Redis that is searched: RELAY_SEARCH_URL, else `store`."""

    def __init__(self, store: Store, documents: Store, settings: Settings) -> None:
        self._store = store
        self._base = f"{settings.public_url}/board/"
        self._documents = documents
        self._choice = EngineChoice(documents)
        self._index = Index(store, documents, self._choice)
        self._workers = Workers(store)

    async def search(self, query: SearchQuery) -> Hits:
        """Open threads that reach the threshold, best first. Raises Invalid, StoreUnavailable."""
        if not query.query.strip():
            raise Invalid.field("body", "query", msg="must hold more than white space")
        found = await self._find(Question(query.query, query.limit + SPARE, query.threshold))
        words = QueryTerms(query.query).terms
        hits: list[Hit] = []
        for start in range(0, len(found.matches), query.limit):
            some = found.matches[start : start + query.limit]
            heads = await asyncio.gather(*(read_head(self._store, match.thread_id) for match in some))
            for match, head in zip(some, heads, strict=True):
                if head and len(hits) < query.limit:
                    hits.append(await self._hit(match, head, words))
            if len(hits) == query.limit:
                break
        return Hits(hits, found.mode)

    async def note(self, thread_id: str, title: str, body: str) -> None:
        """Have a new thread found by text at once; a worker does so too, a moment later. Raises StoreUnavailable."""
        try:
            await self._index.note(thread_id, title, body)
        except CommandFailed:  # a thread is posted whether or not it can be searched for
            self._choice.forget()
            log.exception("thread not noted for search", thread=thread_id)

    async def _find(self, question: Question) -> Found:
        try:
            return await (await self._finder()).find(question)
        except CommandFailed:  # the server may have come back as another, with or without a query engine
            self._choice.forget()
            return await (await self._finder()).find(question)

    async def _finder(self) -> Finder:
        engine = await self._choice.query_engine()
        if engine:
            return EngineFinder(engine, self._documents, self._workers)
        return MemoryFinder(self._store, self._documents, self._workers)

    async def _hit(self, match: Match, head: Head, words: Sequence[str]) -> Hit:
        texts = await self._texts(match, head)
        await asyncio.sleep(0)  # long texts take a millisecond each, and others have a turn between them
        return Hit(
            thread_id=match.thread_id,
            title=head.title,
            snippet=snippet(texts, words),
            score=match.score,
            url=self._base + match.thread_id,
            mode=match.mode,
        )

    async def _texts(self, match: Match, head: Head) -> list[str]:
        """The texts that a snippet may be cut from, the likeliest first."""
        texts: list[str] = []
        if match.passage and match.mode != "text":
            seq, number = place_of(match.passage)
            whole = await read_reply(self._store, match.thread_id, seq) if seq else head.body
            texts = pieces(whole)[number : number + 1]
        if match.mode != "meaning" or not texts:
            texts.append(head.body)
            if head.reply_count:
                replies = await read_replies(self._store, match.thread_id, SNIPPET_REPLIES)
                texts += [text for _, text in reversed(replies)]
        return texts
