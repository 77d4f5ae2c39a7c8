"""The service behind POST /api/v1/board/search: threads by meaning or text (SPEC 4.4, DESIGN 9).

Anybody may search what anybody wrote. So the searches of one client take turns, what one search looks at is bounded and
is charged to the client, and no search holds up the event loop.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from node.common.refusal import Refused
from node.config import Settings
from node.search.effort import SEARCHES_READING, Effort
from node.search.model import Hit, Hits, SearchQuery
from node.search.passages import each_piece, place_of
from node.search.ranking import RankedThread, RankedThreads, SearchRequest
from node.search.rpc.client import MAX_WAITING_REQUESTS
from node.search.snippets import Excerpt
from node.search.store import SearchState, SearchStore
from node.search.threads import OWN, Place, Post, Threads, read_posts
from node.share.turns import Crowded, Turns
from node.text.lines import require_text
from node.text.terms import QueryTerms

SPARE_MATCHES = 5
"""Asked for beyond the limit: some threads may have been closed since they were indexed."""

HITS_AT_ONCE = 10
"""Hits whose texts are read together, at most half a megabyte."""

CHARACTERS = 400_000
"""Of texts that one search looks at for its snippets: 8,000 for each hit where there are fifty."""

CHARACTERS_A_HIT = 40_000
"""At most, whatever other hits leave: a thread's own text and a reply of the longest kind."""

LEAST_CHARACTERS = 1_000
"""For each hit, whatever other hits have taken."""

SEARCHES_AT_ONCE = MAX_WAITING_REQUESTS
"""Of one process; most of them wait for the vector of their query, so as many as may wait at the workers."""

WAITING_SEARCHES = 60
"""Of one client, behind its own others: as many as it may begin in a minute, by default."""

Charge = Callable[[int], None]
"""Takes the characters that a search has looked at, once it is over, whatever became of it."""


class Search:
    """Finds threads."""

    def __init__(self, store: SearchStore, threads: Threads, settings: Settings) -> None:
        self._store = store
        self._threads = threads
        self._base = f"{settings.public_url}/board/"
        self._searches = Turns(SEARCHES_AT_ONCE, each=1, waiting=WAITING_SEARCHES)
        self._readers = Turns(SEARCHES_READING, each=1)

    async def search(self, query: SearchQuery, client: str, charge: Charge) -> Hits:
        """Open threads that reach the threshold, best first.

        Raises Invalid, Refused `limit.waiting`, StoreUnavailable.
        """
        require_text("query", query.query)
        effort = Effort(client, self._readers)
        try:
            async with self._searches.of(client):
                found = await self._find(
                    SearchRequest(query.query, query.limit + SPARE_MATCHES, query.threshold), effort
                )
                async with effort.reading():
                    return Hits(await self._hits(found, query, effort), found.mode)
        except Crowded:
            raise Refused("limit.waiting", retry_after=1.0, most=WAITING_SEARCHES) from None
        finally:
            charge(effort.looked)

    async def note(self, thread_id: str, title: str, body: str) -> None:
        """Have a new thread found by text at once; a worker does so too, a moment later. Raises StoreUnavailable."""
        await self._store.note(thread_id, title, body)

    async def state(self) -> SearchState:
        """What there is of the index, and what is still to be done. Raises StoreUnavailable."""
        return await self._store.state()

    async def reindex(self) -> None:
        """Have the workers index every open thread anew, beside the index in use; it takes over when it is complete.

        Returns at once; `left` says how much is to be done. Raises StoreUnavailable.
        """
        await self._store.versions.reindex()

    async def left(self) -> int | None:
        """Threads that are still to be indexed anew; None if nothing is being built. Raises StoreUnavailable."""
        return await self._store.versions.left()

    async def _find(self, request: SearchRequest, effort: Effort) -> RankedThreads:
        return await self._store.find(request, self._threads, effort)

    async def _hits(self, found: RankedThreads, query: SearchQuery, effort: Effort) -> list[Hit]:
        words = QueryTerms(query.query).terms
        hits: list[Hit] = []
        left = CHARACTERS
        matches = list(found.matches)
        while matches and len(hits) < query.limit:
            some = matches[: min(HITS_AT_ONCE, query.limit - len(hits))]
            del matches[: len(some)]
            posts, _ = await read_posts(self._threads, [place for match in some for place in _places_of(match)])
            opened = [match for match in some if Place(match.thread_id, OWN) in posts]
            for number, match in enumerate(opened):
                share = left // min(query.limit - len(hits), len(opened) - number + len(matches))
                before = effort.looked
                most = max(LEAST_CHARACTERS, min(CHARACTERS_A_HIT, share))
                hits.append(await self._hit(match, posts, words, most, effort))
                left -= effort.looked - before
        return hits

    async def _hit(
        self, match: RankedThread, posts: Mapping[Place, Post], words: Sequence[str], most: int, effort: Effort
    ) -> Hit:
        excerpt = Excerpt(words)
        passage = None
        if _is_near(match):
            seq, number = place_of(match.passage)
            post = posts.get(Place(match.thread_id, seq))
            before = effort.looked
            passage = await _piece(post.body[:most] if post else "", number, effort)
            most -= effort.looked - before
        for text in _texts(match, posts, passage):
            for cost in excerpt.look(text, most):
                most -= cost
                await effort.spend(cost)
            if excerpt.complete or most <= 0:
                break
        return Hit(
            thread_id=match.thread_id,
            title=posts[Place(match.thread_id, OWN)].title,
            snippet=excerpt.text,
            score=match.score,
            url=self._base + match.thread_id,
            mode=match.mode,
        )


def _is_near(match: RankedThread) -> bool:
    return bool(match.passage) and match.mode != "text"


def _places_of(match: RankedThread) -> set[Place]:
    """The posts that a hit is made of: the thread's own, and the replies that its snippet may be cut from."""
    nearest = place_of(match.passage)[0] if _is_near(match) else OWN
    best = match.reply if match.mode != "meaning" else OWN
    return {Place(match.thread_id, seq) for seq in (OWN, nearest, best)}


async def _piece(text: str, number: int, effort: Effort) -> str | None:
    """One piece of a text, None if there are not so many."""
    for found in each_piece(text):
        await effort.spend(len(found))
        if not number:
            return found
        number -= 1
    return None


def _texts(match: RankedThread, posts: Mapping[Place, Post], passage: str | None) -> Iterator[str]:
    """The texts that a snippet may be cut from, the likeliest first."""
    if passage:
        yield passage
    if match.mode != "meaning" or not passage:
        for seq in dict.fromkeys((OWN, match.reply)):
            if post := posts.get(Place(match.thread_id, seq)):
                yield post.body
