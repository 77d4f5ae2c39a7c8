"""What a score means and in which order hits come (DESIGN 9), for all engines.

An engine finds candidates by meaning and by text, and says how near each is and how much of the query it contains. The
score and rank that follow are decided here. Nothing here knows where candidates come from.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

import msgspec

from node.search.model import SUGGESTED_THRESHOLD, HitMode, SearchMode
from node.search.passages import place_of

CANDIDATES = 100
"""Threads taken from each of the two lists, by meaning and by text: twice the most hits a client may ask for."""

REPLY_CANDIDATES = 300
"""Replies taken by text, besides the entities found by their own text; several may belong to one entity."""

RECIPROCAL = 10
"""The constant of reciprocal rank fusion (Cormack, Clarke, Büttcher 2009): the smaller, the more a first rank
counts. Measured by bench/search_quality.py; their 60 is for merging many long lists.
"""

BOTH_LISTS = 2
"""For how much the list by text counts where the one by meaning cannot contain a post, which has no vectors yet."""


class SearchRequest(msgspec.Struct, frozen=True):
    """A search as engines take it. `text` is the query, `limit` how many entities are wanted."""

    text: str
    limit: int
    threshold: float


class NearEntity(msgspec.Struct, frozen=True, order=True):
    """An entity near the query in meaning, and the passage that is nearest. The nearer of two is the larger."""

    meaning: float
    entity_id: str
    passage: str


Nearness = Mapping[str, NearEntity]
"""How near entities are."""


class Candidate(msgspec.Struct, frozen=True, order=True):
    """A post that contains some of the words. The better of two is the larger."""

    score: float
    """By BM25."""
    entity_id: str
    seq: int
    """0 for the entity's own title and body, else the number of the reply."""


class ByText(NamedTuple):
    """The entities that contain some of the words."""

    entities: Mapping[str, int]
    """Best first, by their best post, with its number."""
    replies: Mapping[str, int]
    """The reply of each that matches best, if any does."""
    whole: bool
    """Whether no other entity contains any of the words."""


class Unknown(NamedTuple):
    """What must be known of entities to say which are the best."""

    nearness: list[str]
    """How near these are."""
    posts: Mapping[str, int]
    """Whether these have vectors: the posts that they were found by, by entity."""


class RankedEntity(msgspec.Struct, frozen=True, array_like=True):
    """An entity that reaches the threshold."""

    entity_id: str
    score: float
    mode: HitMode
    """By which of the two scores it does."""
    passage: str
    """The passage nearest in meaning; empty if none is known."""
    reply: int = 0
    """The reply that matches best by text; 0 if none does."""


class RankedEntities(msgspec.Struct, frozen=True, array_like=True):
    """Matches in order, and whether meaning was looked at."""

    matches: list[RankedEntity]
    mode: SearchMode
    below: list[float] = []
    """Without a match: the scores of those that a threshold of SUGGESTED_THRESHOLD would let in."""


def meaning_of(cosine: float) -> float:
    """The score by meaning, 0..1."""
    meaning = (1 + cosine) / 2
    return 0.0 if meaning < 0.0 else 1.0 if meaning > 1.0 else meaning  # a third of the time of min and max


def by_text(own: Sequence[Candidate], replies: Sequence[Candidate]) -> ByText:
    """The list by text, from the best entities by their own text and the best replies."""
    whole = len(own) < CANDIDATES and len(replies) < REPLY_CANDIDATES
    entities: dict[str, int] = {}
    best: dict[str, int] = {}
    for post in sorted([*own, *replies], reverse=True):
        if post.entity_id in entities or len(entities) < CANDIDATES:
            entities.setdefault(post.entity_id, post.seq)
            if post.seq:
                best.setdefault(post.entity_id, post.seq)
    return ByText(entities, best, whole and len(entities) < CANDIDATES)


class Ranking:
    """The entities of both lists in their order.

    `nearest` is the list by meaning, `text` the one by text, both best first. `shares` says which share of the query's
    terms the entities of `text` contain, at least `least` each. The order is by the reciprocal ranks in the two lists,
    each weighted by the square of its score, so that a good rank among bad matches counts for little; among equals the
    newer entity comes first. What is learnt later about entities found in one list only, how much they contain
    (`contain`) or how near they are (`best`), therefore changes their scores, not the order. Only one whose post has no
    vectors yet, as for some seconds after it was written, moves up: that post is judged by its text alone.
    """

    def __init__(
        self, nearest: Sequence[NearEntity], text: ByText, shares: Mapping[str, float], least: float = 0.0
    ) -> None:
        self._near = {each.entity_id: each for each in nearest}
        self._posts = text.entities
        self._replies = text.replies
        self._all_contain = text.whole
        self._shares = dict(shares)
        weights = {each.entity_id: each.meaning**2 / (RECIPROCAL + rank) for rank, each in enumerate(nearest, 1)}
        self._by_text: dict[str, float] = {}
        for rank, entity in enumerate(text.entities, 1):
            share = self._shares[entity] = max(shares.get(entity, 0.0), least)
            self._by_text[entity] = by_text = share**2 / (RECIPROCAL + rank)
            weights[entity] = weights.get(entity, 0.0) + by_text
        self._weights = weights
        self._order = _ordered(weights)

    def unshared(self, request: SearchRequest) -> list[str]:
        """The entities found by meaning alone whose share of the query must be known to say which are the best; none
        if only those found by text contain anything."""
        return [] if self._all_contain else [each for each in self._likeliest(request) if each not in self._shares]

    def contain(self, shares: Mapping[str, float]) -> None:
        """Learn how much of the query the `unshared` entities contain."""
        self._shares.update(shares)

    def unknown(self, request: SearchRequest) -> Unknown:
        """What must be known of those that may be among the best if the posts that they were found by in text have no
        vectors. One has, if it is nearest itself."""
        likeliest = list(self._likeliest(request))
        least = self._weights[likeliest[-1]] / BOTH_LISTS if likeliest else 0.0
        posts: dict[str, int] = {}
        for entity in takewhile(lambda entity: self._weights[entity] >= least, self._order):
            near, post = self._near.get(entity), self._posts.get(entity)
            if post is not None and not (near and place_of(near.passage)[0] == post):
                posts[entity] = post
        return Unknown([each for each in posts if each not in self._near], posts)

    def _likeliest(self, request: SearchRequest) -> Iterator[str]:
        """The entities in order, until as many as are wanted reach the threshold by what is known of them."""
        missing = request.limit
        for entity in self._order:
            yield entity
            known = self._near.get(entity)
            missing -= max(known.meaning if known else 0.0, self._shares.get(entity, 0.0)) >= request.threshold
            if not missing:
                break

    def ranked(
        self, request: SearchRequest, others: Nearness, without_vectors: Collection[str], mode: SearchMode
    ) -> RankedEntities:
        """The answer: the best matches or, if there are none, what a lower threshold would let in."""
        matches = self.best(request, others, without_vectors)
        if matches or request.threshold <= SUGGESTED_THRESHOLD:
            return RankedEntities(matches, mode)
        lower = msgspec.structs.replace(request, threshold=SUGGESTED_THRESHOLD)
        return RankedEntities([], mode, [each.score for each in self.best(lower, others, without_vectors)])

    def best(self, request: SearchRequest, others: Nearness, without_vectors: Collection[str]) -> list[RankedEntity]:
        """The entities that reach the threshold, best first, at most `limit`.

        `others` and `without_vectors` are of the `unknown` ones: how near those are that have vectors, and those whose
        post has none. The score is the better of meaning and share.
        """
        order = self._order
        if without_vectors:
            alone = {each: max(self._weights[each], BOTH_LISTS * self._by_text[each]) for each in without_vectors}
            order = _ordered(self._weights | alone)
        best: list[RankedEntity] = []
        for entity in order:
            known = self._near.get(entity) or others.get(entity)
            meaning, share = known.meaning if known else 0.0, self._shares.get(entity, 0.0)
            score = max(meaning, share)
            if score >= request.threshold:
                mode = _mode(known is not None and meaning >= request.threshold, 0 < share >= request.threshold)
                passage = known.passage if known else ""
                best.append(RankedEntity(entity, round(score, 6), mode, passage, self._replies.get(entity, 0)))
            if len(best) == request.limit:
                break
        return best


def _ordered(weights: Mapping[str, float]) -> list[str]:
    """Entities by their weight, the greatest first; of equals the newer first."""
    return [entity for _, entity in sorted(zip(weights.values(), weights, strict=True), reverse=True)]


def _mode(by_meaning: bool, by_text: bool) -> HitMode:
    if by_meaning and by_text:
        return "both"
    return "text" if by_text else "meaning"
