"""Scores and order of hits (DESIGN 9), the same for all engines.

An engine finds candidates by meaning and by text. It says how near each candidate is to the query, and how much of the
query the candidate contains. This module derives the score and the rank, and does not know where candidates come from.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

import msgspec

from node.search.model import SUGGESTED_THRESHOLD, HitMode, SearchMode
from node.search.passages import seq_and_piece

CANDIDATES = 100
"""Maximum number of entities in each of the lists by meaning and by text: twice as many as a client may ask for."""

REPLY_CANDIDATES = 300
"""Maximum number of replies found by text, besides the entities found by their own text. Several may belong to one
entity."""

RECIPROCAL = 10
"""The constant k of reciprocal rank fusion (Cormack, Clarke, Büttcher 2009): the smaller k is, the more a first rank
counts. Chosen with bench/search_quality.py; the paper's 60 is meant for merging many long lists.
"""

BOTH_LISTS = 2
"""Factor on the weight by text of a post that cannot be in the list by meaning because it has no vectors yet."""


class SearchRequest(msgspec.Struct, frozen=True):
    """A search as engines receive it. `text` is the query, `limit` the number of entities wanted."""

    text: str
    limit: int
    threshold: float
    among: Sequence[str] | None = None
    """The only entities to search, at most CANDIDATES; None for all."""


class NearEntity(msgspec.Struct, frozen=True, order=True):
    """An entity near the query in meaning, with its nearest passage. The nearer of two entities compares greater."""

    meaning: float
    entity_id: str
    passage: str


Nearness = Mapping[str, NearEntity]
"""How near entities are, by entity id. Contains only entities that have vectors."""


class Candidate(msgspec.Struct, frozen=True, order=True):
    """A post that contains some of the query's terms. The better of two posts compares greater."""

    score: float
    """The BM25 score."""
    entity_id: str
    seq: int
    """0 for the entity's own title and body, else the number of the reply."""


class TextMatches(NamedTuple):
    """The list by text: the entities that contain some of the query's terms."""

    entities: Mapping[str, int]
    """The number of each entity's best post. The entities are ordered by that post, best first."""
    replies: Mapping[str, int]
    """The number of each entity's best reply, for the entities of which a reply matches."""
    whole: bool
    """Whether no other entity contains any of the terms."""


class MissingFacts(NamedTuple):
    """What must still be read to tell which entities are the best."""

    nearness: Sequence[str]
    """Entities of which it must be read whether they have vectors, and how near these are."""
    replies: Mapping[str, int]
    """Replies, by entity, of which it must be read whether they have vectors. The entity was found by this reply."""


class RankedEntity(msgspec.Struct, frozen=True, array_like=True):
    """An entity that reaches the threshold."""

    entity_id: str
    score: float
    mode: HitMode
    """Which score reaches the threshold: that by meaning, that by text, or both."""
    passage: str
    """The passage nearest in meaning; empty if none is known."""
    reply: int = 0
    """The reply that matches best by text; 0 if none does."""


class RankedEntities(msgspec.Struct, frozen=True, array_like=True):
    """The matches, best first, and whether the search was also by meaning."""

    matches: list[RankedEntity]
    mode: SearchMode
    below: list[float] = []
    """If there are no matches: the scores of the entities that reach SUGGESTED_THRESHOLD."""


def meaning_of(cosine: float) -> float:
    """Return the score by meaning, 0..1, for a cosine."""
    meaning = (1 + cosine) / 2
    return 0.0 if meaning < 0.0 else 1.0 if meaning > 1.0 else meaning  # three times as fast as min and max


def by_text(own: Sequence[Candidate], replies: Sequence[Candidate]) -> TextMatches:
    """Return the list by text, made from the entities that match best by their own text and the best replies."""
    entities: dict[str, int] = {}
    best: dict[str, int] = {}
    for post in sorted([*own, *replies], reverse=True):
        if post.entity_id in entities or len(entities) < CANDIDATES:
            entities.setdefault(post.entity_id, post.seq)
            if post.seq:
                best.setdefault(post.entity_id, post.seq)
    return TextMatches(entities, best, len(entities) < CANDIDATES and len(replies) < REPLY_CANDIDATES)


class Ranking:
    """The entities of both lists, in order.

    `nearest` is the list by meaning and `text` the list by text, both best first. `shares` gives the share of the
    query's terms that each entity of `text` contains; every share counts as `least` or more.

    An entity's weight is the sum of its reciprocal ranks in the two lists, each multiplied by the square of its score
    in that list, so that a good rank among bad matches counts for little. Of equal weights, the newer entity comes
    first. What is learnt later about an entity in one list only, its share (`contain`) or its nearness (`best`),
    changes its score but not the order. One exception: if the post by which an entity was found has no vectors yet, as
    in the first seconds after it was written, the entity moves up, because that post is judged by its text alone.
    """

    def __init__(
        self, nearest: Sequence[NearEntity], text: TextMatches, shares: Mapping[str, float], least: float = 0.0
    ) -> None:
        meanings = [each.meaning for each in nearest]
        self._near = dict(zip([each.entity_id for each in nearest], nearest, strict=True))
        self._text = text
        self._shares = dict(shares)
        self._scores = scores = dict(zip(self._near, meanings, strict=True))
        """By entity: the greater of meaning and share, as far as these are known."""
        by_meaning = [meaning * meaning / rank for rank, meaning in enumerate(meanings, RECIPROCAL + 1)]
        self._weights = weights = dict(zip(self._near, by_meaning, strict=True))
        self._by_text: dict[str, float] = {}
        """By entity: the weight from the list by text alone."""
        for rank, entity in enumerate(text.entities, 1):
            self._shares[entity] = share = max(shares.get(entity, 0.0), least)
            self._by_text[entity] = weight = share**2 / (RECIPROCAL + rank)
            weights[entity] = weights.get(entity, 0.0) + weight
            if share > scores.get(entity, -1.0):
                scores[entity] = share
        self._order = _ordered(weights)

    def unshared(self, request: SearchRequest) -> list[str]:
        """Return the entities found by meaning alone whose share must be known to tell which entities are the best.

        Returns none if the list by text is known to be complete: then their share is 0.
        """
        return [] if self._text.whole else [each for each in self._likeliest(request) if each not in self._shares]

    def contain(self, shares: Mapping[str, float]) -> None:
        """Take in the shares of the `unshared` entities."""
        self._shares.update(shares)
        self._scores |= {entity: max(share, self._scores[entity]) for entity, share in shares.items()}

    def missing(self, request: SearchRequest) -> MissingFacts:
        """Return what must be read about entities that are among the best if their best post by text has no vectors.

        An entity's own text has vectors if any post of the entity has. The post of the nearest passage has vectors.
        """
        likeliest = self._likeliest(request)
        least = self._weights[likeliest[-1]] / BOTH_LISTS if likeliest else 0.0
        nearness = [each for each in self._text.entities if each not in self._near and self._weights[each] >= least]
        replies = {each: seq for each, seq in self._text.entities.items() if seq and self._weights[each] >= least}
        for entity in replies.keys() & self._near.keys():
            if seq_and_piece(self._near[entity].passage)[0] == replies[entity]:
                del replies[entity]
        return MissingFacts(nearness, replies)

    def _likeliest(self, request: SearchRequest) -> Sequence[str]:
        """Return the first entities in order, until `limit` of them reach the threshold by their known scores."""
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
        """Return the best matches or, if there are none, the scores that would reach a lower threshold."""
        matches = self.best(request, others, without_vectors)
        if matches or request.threshold <= SUGGESTED_THRESHOLD:
            return RankedEntities(matches, mode)
        lower = msgspec.structs.replace(request, threshold=SUGGESTED_THRESHOLD)
        return RankedEntities([], mode, [each.score for each in self.best(lower, others, without_vectors)])

    def best(self, request: SearchRequest, others: Nearness, without_vectors: Collection[str]) -> list[RankedEntity]:
        """Return the entities that reach the threshold, best first, at most `limit`.

        `others` and `without_vectors` answer what was `missing`: how near the entities with vectors are, and which
        entities were found by a post without vectors. The score is the greater of meaning and share.
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
    """Return the answer of a search among given entities only. By text, equal shares rank in the order of `shares`."""
    found = sorted((entity for entity, share in shares.items() if share), key=shares.__getitem__, reverse=True)
    text = TextMatches(dict.fromkeys(found, 0), {}, True)
    return Ranking(sorted(near, reverse=True), text, shares).ranked(request, {}, (), mode)


def _ordered(weights: Mapping[str, float]) -> list[str]:
    """Return the entities by weight, greatest first; of equal weights, the newer entity first."""
    return list(map(itemgetter(1), sorted(zip(weights.values(), weights, strict=True), reverse=True)))


def _mode(by_meaning: bool, by_text: bool) -> HitMode:
    if by_meaning and by_text:
        return "both"
    return "text" if by_text else "meaning"
