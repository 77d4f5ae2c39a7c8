"""Searches a corpus for entities, by meaning or by text (SPEC 4.4, DESIGN 9).

Anybody may post, and anybody may search. Therefore the searches of one client run one after another, the number of
characters that a search looks at is bounded and charged to its client, and no search blocks the event loop.
"""

import asyncio
import math
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar

from msgspec import UNSET, UnsetType

from node.common.own_terms import OwnTerms
from node.common.refusal import Refused
from node.search.corpus import OWN, Post, PostRef
from node.search.model import SUGGESTED_THRESHOLD, FoundEntities, FoundEntity, LowerThreshold, SearchQuery
from node.search.passages import pieces, seq_and_piece
from node.search.ranking import CANDIDATES, RankedEntities, RankedEntity, SearchRequest
from node.search.rpc.client import MAX_WAITING_REQUESTS
from node.search.snippets import Excerpt, WantedTerms
from node.search.store import SearchState, SearchStore
from node.search.work import SEARCHES_READING, SearchWork
from node.share.fair_semaphore import FairSemaphore, QueueFull
from node.share.site import SITE_SHARE, site_of
from node.text.lines import require_text
from node.text.readable import readable
from node.text.terms import QueryTerms

T = TypeVar("T")

SPARE_MATCHES = 5
"""Matches requested beyond the limit, because some entities may have been closed since they were indexed."""

HITS_AT_ONCE = 10
"""Hits whose texts are read in one round trip: half a megabyte at most."""

CHARACTERS = 400_000
"""Characters that one search may look at for its snippets: 8,000 for each of fifty hits."""

MAX_CHARACTERS_A_HIT = 40_000
"""Maximum number of characters looked at for one hit, even if the other hits need few: an entity's own text and a
reply, both as long as allowed."""

MIN_CHARACTERS_A_HIT = 1_000
"""Characters that may always be looked at for a hit, even if earlier hits have used up CHARACTERS."""

SUGGESTED_STEPS = 20
"""Suggested thresholds are multiples of 1 / SUGGESTED_STEPS."""

SEARCHES_AT_ONCE = MAX_WAITING_REQUESTS
"""Searches that one process runs at a time, at most SITE_SHARE of them for one site. Most of them wait for the vector
of their query, so there may be as many searches as one worker may have waiting requests."""

WAITING_SEARCHES = 60
"""Searches of one client that may wait for its earlier ones: as many as the default rate limit allows in a minute."""

Charge = Callable[[int], None]
"""Called when a search ends, successfully or not, with the number of characters that it has looked at."""


class Match(NamedTuple):
    """A match and the posts from which its hit is made."""

    ranked: RankedEntity
    own: PostRef
    near: PostRef | None
    """The post nearest in meaning, if the entity was found by meaning."""
    piece: int
    """Number of the nearest passage of that post."""
    reply: PostRef | None
    """The reply that matches best by text, if the entity was found by text."""

    @classmethod
    def of(cls, ranked: RankedEntity) -> "Match":
        """Return the match for a ranked entity."""
        own = PostRef(ranked.entity_id, OWN)
        near, piece, reply = None, 0, None
        if ranked.passage and ranked.mode != "text":
            seq, piece = seq_and_piece(ranked.passage)
            near = own if seq == OWN else PostRef(ranked.entity_id, seq)
        if ranked.reply and ranked.mode != "meaning":
            reply = PostRef(ranked.entity_id, ranked.reply)
        return cls(ranked, own, near, piece, reply)

    @property
    def refs(self) -> list[PostRef]:
        """The posts from which the hit is made."""
        return [ref for ref in {self.own, self.near, self.reply} if ref]


class SearchTurns:
    """Limits how many searches run at a time in one process, over all corpora."""

    def __init__(self) -> None:
        self._clients = FairSemaphore(sys.maxsize, each=1, waiting=WAITING_SEARCHES)
        self._sites = FairSemaphore(SEARCHES_AT_ONCE, each=SITE_SHARE, waiting=WAITING_SEARCHES * SITE_SHARE)
        self.readers = FairSemaphore(SEARCHES_READING, each=1)

    @asynccontextmanager
    async def of(self, client: str) -> AsyncGenerator[None]:
        """Hold a place for a search of the client while the block runs. Raises Refused `limit.waiting`."""
        try:
            async with self._clients.of(client), self._sites.of(site_of(client)):
                yield
        except QueueFull:
            raise Refused("limit.waiting", retry_after=1.0, most=WAITING_SEARCHES) from None


class Search:
    """Finds entities of one corpus."""

    def __init__(self, store: SearchStore, turns: SearchTurns) -> None:
        self._store = store
        self._corpus = store.corpus
        self._turns = turns

    async def search(self, query: SearchQuery, client: str, charge: Charge) -> FoundEntities:
        """Return the open entities that reach the threshold, best first.

        Raises Invalid, Refused `limit.waiting`, StoreUnavailable.
        """
        async with self._work(query, client, charge) as work:
            return await self._found(await self._matching(query, work), query, work)

    async def search_with(
        self,
        query: SearchQuery,
        client: str,
        charge: Charge,
        read: Callable[[Sequence[str]], Awaitable[T]],
        among: Sequence[str] | None = None,
    ) -> tuple[FoundEntities, T]:
        """Do a `search` and, at the same time, call `read` with the ids of the entities that may be among the hits.

        Returns the results of both. If `among` is given, only its first CANDIDATES entities are searched.
        """
        async with self._work(query, client, charge) as work:
            ranked = await self._matching(query, work, among)
            entity_ids = [match.entity_id for match in ranked.matches]
            return await asyncio.gather(self._found(ranked, query, work), read(entity_ids))

    async def ranked(
        self, query: SearchQuery, client: str, charge: Charge, among: Sequence[str] | None = None
    ) -> list[str]:
        """Return the ids of the entities that reach the threshold, best first, without reading their texts.

        Some of the entities may have been closed meanwhile. `among` is as for `search_with`. Raises Invalid, Refused
        `limit.waiting`, StoreUnavailable.
        """
        async with self._work(query, client, charge) as work:
            ranked = await self._matching(query, work, among, spare=0)
            return [match.entity_id for match in ranked.matches]

    def own_terms(self, title: str, body: str) -> OwnTerms:
        """Return the terms that the step which keeps a new entity must keep too, so that the entity is found by text.

        Returns NO_TERMS if the step cannot keep them; then call `note` after it.
        """
        return self._store.own_terms(title, body)

    async def note(self, entity_id: str, title: str, body: str) -> None:
        """Index a new entity by text at once. A worker does the same a moment later. Raises StoreUnavailable."""
        await self._store.note(entity_id, title, body)

    async def state(self) -> SearchState:
        """Return the versions of the index and the amount of work left. Raises StoreUnavailable."""
        return await self._store.state()

    async def reindex(self) -> None:
        """Have the workers reindex every open entity. The index in use is replaced when the new one is complete.

        Returns at once; `state` says how much work is left. Raises StoreUnavailable.
        """
        await self._store.versions.reindex()

    @asynccontextmanager
    async def _work(self, query: SearchQuery, client: str, charge: Charge) -> AsyncGenerator[SearchWork]:
        """Run the block in the client's turn, then charge the client. Raises Invalid, Refused `limit.waiting`."""
        require_text("query", readable(query.query))
        work = SearchWork(client, self._turns.readers)
        try:
            async with self._turns.of(client):
                yield work
        finally:
            charge(work.characters)

    async def _matching(
        self, query: SearchQuery, work: SearchWork, among: Sequence[str] | None = None, spare: int = SPARE_MATCHES
    ) -> RankedEntities:
        only = None if among is None else among[:CANDIDATES]
        return await self._store.find(SearchRequest(query.query, query.limit + spare, query.threshold, only), work)

    async def _found(self, ranked: RankedEntities, query: SearchQuery, work: SearchWork) -> FoundEntities:
        async with work.reading():
            hits, is_incomplete = await self._hits(ranked, query, work)
        return FoundEntities(hits, ranked.mode, lower_threshold(ranked.below, query.limit), is_incomplete or UNSET)

    async def _hits(
        self, ranked: RankedEntities, query: SearchQuery, work: SearchWork
    ) -> tuple[list[FoundEntity], bool]:
        """Return the hits for the matches, and whether some matches could not be read."""
        wanted = WantedTerms(QueryTerms(query.query).shown)
        hits: list[FoundEntity] = []
        left = CHARACTERS
        matches = list(map(Match.of, ranked.matches))
        is_incomplete = False
        while matches and len(hits) < query.limit:
            some = matches[: min(HITS_AT_ONCE, query.limit - len(hits))]
            del matches[: len(some)]
            posts, unreachable = await self._corpus.read_reachable([ref for each in some for ref in each.refs])
            is_incomplete |= bool(unreachable)
            opened = [match for match in some if match.own in posts]
            for number, match in enumerate(opened):
                share = left // min(query.limit - len(hits), len(opened) - number + len(matches))
                before = work.characters
                most = max(MIN_CHARACTERS_A_HIT, min(MAX_CHARACTERS_A_HIT, share))
                hits.append(await _hit(match, posts, wanted, most, work))
                left -= work.characters - before
        return hits, is_incomplete


def lower_threshold(scores: Sequence[float], limit: int) -> LowerThreshold | UnsetType:
    """Return the highest suggested threshold that has hits, with their number; UNSET if there are no scores.

    `scores` are those of the entities that reach SUGGESTED_THRESHOLD.
    """
    if not scores:
        return UNSET
    threshold = max(SUGGESTED_THRESHOLD, math.floor(max(scores) * SUGGESTED_STEPS) / SUGGESTED_STEPS)
    return LowerThreshold(threshold, min(limit, sum(score >= threshold for score in scores)))


async def _hit(
    match: Match, posts: Mapping[PostRef, Post], wanted: WantedTerms, most: int, work: SearchWork
) -> FoundEntity:
    excerpt = Excerpt(wanted)
    passage = None
    if match.near:
        post = posts.get(match.near)
        before = work.characters
        passage = await _piece(post.body[:most] if post else "", match.piece, work)
        most -= work.characters - before
    for text in _texts(match, posts, passage):
        for cost in excerpt.look(text, most):
            most -= cost
            await work.spend(cost)
        if excerpt.complete or most <= 0:
            break
    return FoundEntity(
        entity_id=match.ranked.entity_id,
        title=posts[match.own].title,
        snippet=excerpt.text,
        score=match.ranked.score,
        mode=match.ranked.mode,
        seq=match.near.seq if match.near else match.ranked.reply,
    )


async def _piece(text: str, number: int, work: SearchWork) -> str | None:
    """Return the piece of a text with that number, counted from 0; None if the text has fewer pieces."""
    for found in pieces(text):
        await work.spend(len(found))
        if not number:
            return found
        number -= 1
    return None


def _texts(match: Match, posts: Mapping[PostRef, Post], passage: str | None) -> Iterator[str]:
    """Yield the texts from which a snippet may be cut, the most promising first."""
    if passage:
        yield passage
    if match.ranked.mode != "meaning" or not passage:
        for ref in (match.own, match.reply):
            if ref and (post := posts.get(ref)):
                yield post.body
