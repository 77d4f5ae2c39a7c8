"""The service behind POST /api/v1/board/search: threads by meaning or text (SPEC 4.4, DESIGN 9).

Anybody may search what anybody wrote. So the searches of one client take turns, what one search looks at is bounded,
each says in the end how much that was, and none holds up the event loop.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import structlog

from node.common.refusal import Invalid, Refused
from node.config import Settings
from node.search.effort import READERS, Effort
from node.search.engines.choice import EngineChoice
from node.search.generations import IndexVersion, IndexVersions, reindex
from node.search.indexing.documents import Documents
from node.search.indexing.queue import Queue
from node.search.model import Hit, Hits, SearchQuery
from node.search.passages import each_piece, place_of
from node.search.ranking import RankedThread, RankedThreads, SearchRequest
from node.search.retrieval import EngineRetriever, Retriever, WorkerMemoryRetriever
from node.search.rpc.client import MOST_WAITING, WorkerClient
from node.search.snippets import Excerpt
from node.search.threads import Head, Place, read_heads, read_replies
from node.share.turns import Crowded, Turns
from node.store import CommandFailed, Store, keys
from node.text.terms import QueryTerms

log = structlog.get_logger()

SPARE = 5
"""Matches asked for beyond the limit: some threads may have been closed since they were indexed."""

TOGETHER = 10
"""Hits whose texts are read at a time, at most half a megabyte."""

CHARACTERS = 400_000
"""Of texts that one search looks at for its snippets: 8,000 for each hit where there are fifty."""

CHARACTERS_A_HIT = 40_000
"""At most, whatever others leave: a thread's own text and a reply of the longest kind."""

LEAST_CHARACTERS = 1_000
"""For each hit, whatever others have taken."""

UNDER_WAY = MOST_WAITING
"""Searches of one process, of which most wait for the vector of their query: as many as may wait at a worker."""

WAITING = 60
"""Searches of one client that may wait for its others: as many as it may begin in a minute, by default."""


class SearchState(msgspec.Struct, frozen=True):
    """What the index is like, for operators."""

    live: IndexVersion | None
    """The version that queries use."""
    target: IndexVersion | None
    """The one that is built to take its place."""
    pending: int
    backlog: int
    meaning: bool
    """Whether a worker embeds queries now."""


Charge = Callable[[int], None]
"""Takes the characters that a search has looked at, once it is over, whatever became of it."""


class Search:
    """Finds threads. `documents` is the Redis that is searched: RELAY_SEARCH_URL, else `store`."""

    def __init__(self, store: Store, documents: Store, settings: Settings) -> None:
        self._store = store
        self._base = f"{settings.public_url}/board/"
        self._documents = documents
        self._choice = EngineChoice(documents)
        self._index = Documents(store, documents, self._choice)
        self._workers = WorkerClient(store)
        self._searches = Turns(UNDER_WAY, each=1, waiting=WAITING)
        self._readers = Turns(READERS, each=1)

    async def search(self, query: SearchQuery, client: str, charge: Charge) -> Hits:
        """Open threads that reach the threshold, best first.

        Raises Invalid, Refused `limit.waiting`, StoreUnavailable.
        """
        if not query.query.strip():
            raise Invalid.field("body", "query", msg="must hold more than white space")
        effort = Effort(client, self._readers)
        try:
            async with self._searches.of(client):
                found = await self._find(SearchRequest(query.query, query.limit + SPARE, query.threshold), effort)
                async with effort.reading():
                    return Hits(await self._hits(found, query, effort), found.mode)
        except Crowded:
            raise Refused("limit.waiting", retry_after=1.0, most=WAITING) from None
        finally:
            charge(effort.looked)

    async def note(self, thread_id: str, title: str, body: str) -> None:
        """Have a new thread found by text at once; a worker does so too, a moment later. Raises StoreUnavailable."""
        try:
            await self._index.note(thread_id, title, body)
        except CommandFailed:  # a thread is posted whether or not it can be searched for
            self._choice.forget()
            log.exception("thread not noted for search", thread=thread_id)

    async def _find(self, question: SearchRequest, effort: Effort) -> RankedThreads:
        try:
            return await (await self._finder()).find(question, effort)
        except CommandFailed:  # the server may have come back as another, with or without a query engine
            self._choice.forget()
            return await (await self._finder()).find(question, effort)

    async def _finder(self) -> Retriever:
        engine = await self._choice.query_engine()
        if engine:
            return EngineRetriever(engine, self._documents, self._workers)
        return WorkerMemoryRetriever(self._store, self._documents, self._workers)

    async def _hits(self, found: RankedThreads, query: SearchQuery, effort: Effort) -> list[Hit]:
        words = QueryTerms(query.query).terms
        hits: list[Hit] = []
        left = CHARACTERS
        matches = list(found.matches)
        while matches and len(hits) < query.limit:
            some = matches[: min(TOGETHER, query.limit - len(hits))]
            del matches[: len(some)]
            heads = await read_heads(self._store, [match.thread_id for match in some])
            opened = [(match, head) for match, head in zip(some, heads, strict=True) if head]
            replies = await read_replies(self._store, [place for match, _ in opened for place in _replies_of(match)])
            for number, (match, head) in enumerate(opened):
                share = left // min(query.limit - len(hits), len(opened) - number + len(matches))
                before = effort.looked
                most = max(LEAST_CHARACTERS, min(CHARACTERS_A_HIT, share))
                hits.append(await self._hit(match, head, replies, words, most, effort))
                left -= effort.looked - before
        return hits

    async def _hit(
        self,
        match: RankedThread,
        head: Head,
        replies: Mapping[Place, str],
        words: Sequence[str],
        most: int,
        effort: Effort,
    ) -> Hit:
        excerpt = Excerpt(words)
        passage = None
        if match.passage and match.mode != "text":
            seq, number = place_of(match.passage)
            whole = replies.get(Place(match.thread_id, seq), "") if seq else head.body
            before = effort.looked
            passage = await _piece(whole[:most], number, effort)
            most -= effort.looked - before
        for text in _texts(match, head, replies, passage):
            for cost in excerpt.look(text, most):
                most -= cost
                await effort.spend(cost)
            if excerpt.complete or most <= 0:
                break
        return Hit(
            thread_id=match.thread_id,
            title=head.title,
            snippet=excerpt.text,
            score=match.score,
            url=self._base + match.thread_id,
            mode=match.mode,
        )

    async def state(self) -> SearchState:
        """What the index is like. Raises StoreUnavailable."""
        versions = IndexVersions(self._store)
        pending, backlog = await Queue(self._store).waiting()
        embeds = await self._store.command("EXISTS", keys.search_alive("vectors"))
        return SearchState(await versions.live(), await versions.target(), pending, backlog, embeds == 1)

    async def reindex(self) -> None:
        """Have the workers index every open thread anew. Returns at once. Raises StoreUnavailable."""
        await reindex(self._store)


def _replies_of(match: RankedThread) -> set[Place]:
    """The replies that a snippet may be cut from."""
    nearest = place_of(match.passage)[0] if match.passage and match.mode != "text" else 0
    best = match.reply if match.mode != "meaning" else 0
    return {Place(match.thread_id, seq) for seq in (nearest, best) if seq}


async def _piece(text: str, number: int, effort: Effort) -> str | None:
    """One piece of a text, None if there are not so many."""
    for found in each_piece(text):
        await effort.spend(len(found))
        if not number:
            return found
        number -= 1
    return None


def _texts(match: RankedThread, head: Head, replies: Mapping[Place, str], passage: str | None) -> Iterator[str]:
    """The texts that a snippet may be cut from, the likeliest first."""
    if passage:
        yield passage
    if match.mode != "meaning" or not passage:
        yield head.body
        if reply := replies.get(Place(match.thread_id, match.reply)):
            yield reply
