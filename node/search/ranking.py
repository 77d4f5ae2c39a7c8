"""What a score means and in which order hits come (DESIGN 9), for all engines.

An engine finds candidates by meaning and by text, and says how near each is and how much of the query it contains. The
score and rank that follow are decided here. Nothing here knows where candidates come from.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

import msgspec

from node.search.model import SUGGESTED_THRESHOLD, HitMode, SearchMode
from node.search.passages import seq_and_piece

CANDIDATES = 100
"""Entities taken from each of the two lists, by meaning and by text: twice as many as a client may ask for."""

REPLY_CANDIDATES = 300
"""Replies taken by text, besides the entities found by their own text; several may belong to one entity."""

RECIPROCAL = 10
"""The constant of reciprocal rank fusion (Cormack, Clarke, Büttcher 2009): the smaller, the more a first rank
counts. Measured by bench/search_quality.py; their 60 is for merging many long lists.
"""

BOTH_LISTS = 2
"""Weight of the list by text for a post that cannot be in the list by meaning, because it has no vectors yet."""


class SearchRequest(msgspec.Struct, frozen=True):
    """A search as engines take it. `text` is the query, `limit` how many entities are wanted."""

    text: str
    limit: int
    threshold: float
    among: Sequence[str] | None = None
    """The only entities to be looked at, at most CANDIDATES; None = all."""


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
    """The score by BM25."""
    entity_id: str
    seq: int
    """0 for the entity's own title and body, else the number of the reply."""


class TextMatches(NamedTuple):
    """The entities that contain some of the words."""

    entities: Mapping[str, int]
    """Best first, by their best post, with its number."""
    replies: Mapping[str, int]
    """The reply of each that matches best, if any does."""
    whole: bool
    """Whether no other entity contains any of the words."""


class MissingFacts(NamedTuple):
    """What must be known of entities to say which are the best."""

    nearness: Sequence[str]
    """How near these are, and whether they have vectors at all."""
    replies: Mapping[str, int]
    """Whether these replies have vectors, by entity: it was found by one of them."""


class RankedEntity(msgspec.Struct, frozen=True, array_like=True):
    """An entity that reaches the threshold."""

    entity_id: str
    score: float
    mode: HitMode
    """By which of the two scores: meaning, text, or both."""
    passage: str
    """The passage nearest in meaning; empty if none is known."""
    reply: int = 0
    """The reply that matches best by text; 0 if none does."""


class RankedEntities(msgspec.Struct, frozen=True, array_like=True):
    """Matches in order, and whether meaning was looked at."""

    matches: list[RankedEntity]
    mode: SearchMode
    below: list[float] = []
    """Without a match: the scores of the entities that reach SUGGESTED_THRESHOLD."""


def meaning_of(cosine: float) -> float:
    """The score by meaning, 0..1."""
    meaning = (1 + cosine) / 2
    return 0.0 if meaning < 0.0 else 1.0 if meaning > 1.0 else meaning  # a third of the time of min and max


def by_text(own: Sequence[Candidate], replies: Sequence[Candidate]) -> TextMatches:
    """The list by text, from the best entities by their own text and the best replies."""
    entities: dict[str, int] = {}
    best: dict[str, int] = {}
    for post in sorted([*own, *replies], reverse=True):
        if post.entity_id in entities or len(entities) < CANDIDATES:
            entities.setdefault(post.entity_id, post.seq)
            if post.seq:
                best.setdefault(post.entity_id, post.seq)
    return TextMatches(entities, best, len(entities) < CANDIDATES and len(replies) < REPLY_CANDIDATES)


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
        self, nearest: Sequence[NearEntity], text: TextMatches, shares: Mapping[str, float], least: float = 0.0
    ) -> None:
        meanings = [each.meaning for each in nearest]
        self._near = dict(zip([each.entity_id for each in nearest], nearest, strict=True))
        self._text = text
        self._shares = dict(shares)
        self._scores = scores = dict(zip(self._near, meanings, strict=True))
        """The better of meaning and share, as far as they are known."""
        by_meaning = [meaning * meaning / rank for rank, meaning in enumerate(meanings, RECIPROCAL + 1)]
        self._weights = weights = dict(zip(self._near, by_meaning, strict=True))
        self._by_text: dict[str, float] = {}
        """The weights that entities have by their text alone."""
        for rank, entity in enumerate(text.entities, 1):
            self._shares[entity] = share = max(shares.get(entity, 0.0), least)
            self._by_text[entity] = weight = share**2 / (RECIPROCAL + rank)
            weights[entity] = weights.get(entity, 0.0) + weight
            if share > scores.get(entity, -1.0):
                scores[entity] = share
        self._order = _ordered(weights)

    def unshared(self, request: SearchRequest) -> list[str]:
        """The entities found by meaning alone whose share of the query has to be known to say which are the best; none
        if no others than those found by text contain any of the words."""
        return [] if self._text.whole else [each for each in self._likeliest(request) if each not in self._shares]

    def contain(self, shares: Mapping[str, float]) -> None:
        """Learn how much of the query the `unshared` entities contain."""
        self._shares.update(shares)
        self._scores |= {entity: max(share, self._scores[entity]) for entity, share in shares.items()}

    def missing(self, request: SearchRequest) -> MissingFacts:
        """What has to be known of the entities that are among the best if the posts by which they were found by text
        have no vectors. An entity's own text has vectors if any of its posts has, and so has the nearest passage."""
        likeliest = self._likeliest(request)
        least = self._weights[likeliest[-1]] / BOTH_LISTS if likeliest else 0.0
        nearness = [each for each in self._text.entities if each not in self._near and self._weights[each] >= least]
        replies = {each: seq for each, seq in self._text.entities.items() if seq and self._weights[each] >= least}
        for entity in replies.keys() & self._near.keys():
            if seq_and_piece(self._near[entity].passage)[0] == replies[entity]:
                del replies[entity]
        return MissingFacts(nearness, replies)

    def _likeliest(self, request: SearchRequest) -> Sequence[str]:
        """The entities in order, until as many as are wanted reach the threshold by what is known of them."""
        missing = request.limit
        for rank, entity in enumerate(self._order, 1):
            if self._scores[entity] >= request.threshold:
                missing -= 1
                if not missing:
                    return self._order[:rank]
        return self._order

    def ranked(
        self, request: SearchRequest, others: Nearness, without_vectors: Collection[str], mode: SearchMode
    ) -> RankedEntities:
        """The answer: the best matches or, if there are none, what would reach a lower threshold."""
        matches = self.best(request, others, without_vectors)
        if matches or request.threshold <= SUGGESTED_THRESHOLD:
            return RankedEntities(matches, mode)
        lower = msgspec.structs.replace(request, threshold=SUGGESTED_THRESHOLD)
        return RankedEntities([], mode, [each.score for each in self.best(lower, others, without_vectors)])

    def best(self, request: SearchRequest, others: Nearness, without_vectors: Collection[str]) -> list[RankedEntity]:
        """The entities that reach the threshold, best first, at most `limit`.

        `others` and `without_vectors` are of the `missing` ones: how near those are that have vectors, and those whose
        post has none. The score is the better of meaning and share.
        """
        order, scores = self._order, self._scores
        if without_vectors:
            alone = {each: max(self._weights[each], BOTH_LISTS * self._by_text[each]) for each in without_vectors}
            order = _ordered(self._weights | alone)
        if others:
            scores = scores | {entity: max(near.meaning, scores[entity]) for entity, near in others.items()}
        best: list[RankedEntity] = []
        for entity in order:
            if (score := scores[entity]) >= request.threshold:
                near = self._near.get(entity) or others.get(entity)
                by_meaning = near is not None and near.meaning >= request.threshold
                mode = _mode(by_meaning, 0 < self._shares.get(entity, 0.0) >= request.threshold)
                passage = near.passage if near else ""
                best.append(RankedEntity(entity, round(score, 6), mode, passage, self._text.replies.get(entity, 0)))
                if len(best) == request.limit:
                    break
        return best


def ranked_among(
    request: SearchRequest, near: Iterable[NearEntity], shares: Mapping[str, float], mode: SearchMode
) -> RankedEntities:
    """The answer if no others than these entities are looked at; of equals by text, the order is that of `shares`."""
    found = sorted((entity for entity, share in shares.items() if share), key=shares.__getitem__, reverse=True)
    text = TextMatches(dict.fromkeys(found, 0), {}, True)
    return Ranking(sorted(near, reverse=True), text, shares).ranked(request, {}, (), mode)


def _ordered(weights: Mapping[str, float]) -> list[str]:
    """Entities by their weight, the greatest first; of equals the newer first."""
    return list(map(itemgetter(1), sorted(zip(weights.values(), weights, strict=True), reverse=True)))


def _mode(by_meaning: bool, by_text: bool) -> HitMode:
    if by_meaning and by_text:
        return "both"
    return "text" if by_text else "meaning"
