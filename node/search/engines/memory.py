"""The search index in a worker's memory, for a Redis without a query engine: exact cosines and BM25.

It finds the same as `redisearch`, with the same scores. It is designed for 50,000 entities, which take about 200 MB.
Its calls block, so it is used in a thread of its own; `node.search.indexing.memory_replica` feeds and queries it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from node.search.corpus import OWN, PostRef
from node.search.engines.bm25 import Postings
from node.search.ranking import (
    CANDIDATES,
    REPLY_CANDIDATES,
    Candidate,
    NearEntity,
    Nearness,
    RankedEntities,
    Ranking,
    SearchRequest,
    by_text,
    meaning_of,
    ranked_among,
)
from node.text.terms import QueryTerms

FIRST_VECTORS = 1024
"""Vectors for which there is room at first. The room is doubled when it is full."""

NO_VECTOR = -2.0
"""Used in place of a cosine for rows without a vector: less than any cosine."""


class PostDocument(NamedTuple):
    """The search document of one post."""

    ref: PostRef
    terms: str = ""
    """Separated by spaces."""
    marks: bytes = b""
    """The marks of an entity's own text. The marks of its replies are kept together (`put_reply_marks`)."""
    vectors: Mapping[str, bytes] = {}
    """Vectors by the name of the passage."""


class Vectors:
    """The vectors of all passages, in one matrix."""

    def __init__(self) -> None:
        self._matrix: NDArray[np.float32] = np.zeros((0, 0), np.float32)
        self._owners: list[tuple[str, str] | None] = []
        """By row: the id of the entity and the name of the passage; None if the row is free."""
        self._free: list[int] = []
        self._rows: dict[PostRef, list[int]] = {}

    def put(self, ref: PostRef, vectors: Mapping[str, bytes]) -> None:
        """Set the vectors of a post's passages, and forget all earlier ones of the post."""
        for row in self._rows.pop(ref, ()):
            self._owners[row] = None
            self._free.append(row)
        if vectors:
            self._rows[ref] = [self._add(ref.entity_id, *each) for each in vectors.items()]

    def __contains__(self, ref: PostRef) -> bool:
        return ref in self._rows

    def cosines(self, query: bytes) -> NDArray[np.float32]:
        """Return the cosine of the query with every row. Relies on all vectors having length 1."""
        if not self._owners:
            return np.zeros(0, np.float32)
        cosines: NDArray[np.float32] = self._matrix[: len(self._owners)] @ np.frombuffer(query, np.float32)
        cosines[self._free] = NO_VECTOR
        return cosines

    def nearest(self, cosines: NDArray[np.float32], most: int) -> list[NearEntity]:
        """Return the entities of the `most` nearest passages, best first."""
        rows: NDArray[Any] = np.arange(len(cosines))
        if len(cosines) > most:
            rows = np.argpartition(cosines, len(cosines) - most)[-most:]
        found: dict[str, NearEntity] = {}
        for row in sorted(map(int, rows), key=lambda row: float(cosines[row]), reverse=True):
            if owner := self._owners[row]:
                entity_id, passage = owner
                found.setdefault(entity_id, NearEntity(meaning_of(float(cosines[row])), entity_id, passage))
        return sorted(found.values(), reverse=True)

    def nearest_of(self, cosines: NDArray[np.float32], posts: Iterable[PostRef]) -> NearEntity | None:
        """Return how near the entity of these posts is; None if the posts have no vectors."""
        rows = [row for ref in posts for row in self._rows.get(ref, ())]
        if not rows:
            return None
        cosine, owner = max((float(cosines[row]), self._owners[row] or ("", "")) for row in rows)
        return NearEntity(meaning_of(cosine), *owner)

    def _add(self, entity_id: str, passage: str, raw: bytes) -> int:
        vector = np.frombuffer(raw, np.float32)
        if self._free:
            row = self._free.pop()
        else:
            row = len(self._owners)
            self._owners.append(None)
        if row == len(self._matrix):
            larger = np.zeros((max(FIRST_VECTORS, 2 * row), len(vector)), np.float32)
            if row:
                larger[:row] = self._matrix
            self._matrix = larger
        self._matrix[row] = vector
        self._owners[row] = (entity_id, passage)
        return row


class MemoryIndex:
    """The index of all open entities of a corpus."""

    def __init__(self) -> None:
        self._vectors = Vectors()
        # Separate, as in the query engine, so that an entity is found by its own text however many replies match.
        self._own = Postings[PostRef]()
        self._replies = Postings[PostRef]()
        self._posts: dict[str, set[PostRef]] = {}
        """By entity: its posts that are in the index."""
        self._marks: dict[str, bytes] = {}
        self._reply_marks: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._own)

    def put(self, document: PostDocument) -> None:
        """Add or replace the document of a post. A document without terms and vectors removes the post."""
        ref = document.ref
        postings = self._own if ref.seq == OWN else self._replies
        if document.terms or document.vectors:
            self._posts.setdefault(ref.entity_id, set()).add(ref)
            postings.put(ref, document.terms.split())
            if ref.seq == OWN:
                self._marks[ref.entity_id] = document.marks
        else:
            self._posts.get(ref.entity_id, set()).discard(ref)
            postings.remove(ref)
        self._vectors.put(ref, document.vectors)

    def put_reply_marks(self, entity_id: str, marks: bytes) -> None:
        """Set the joint marks of all replies of an entity."""
        if marks:
            self._reply_marks[entity_id] = marks
        else:
            self._reply_marks.pop(entity_id, None)

    def remove(self, entity_id: str) -> None:
        """Forget an entity."""
        self._marks.pop(entity_id, None)
        self._reply_marks.pop(entity_id, None)
        for ref in self._posts.pop(entity_id, ()):
            self.put(PostDocument(ref))

    def find(self, request: SearchRequest, vector: bytes | None) -> RankedEntities:
        """Return the entities that reach the threshold. Without a vector, the search is by text alone."""
        query = QueryTerms(request.text)
        cosines = self._vectors.cosines(vector) if vector is not None else None
        if request.among is not None:
            near = [self._nearest_of(cosines, each) for each in request.among] if cosines is not None else []
            shares = self._shares(query, request.among)
            return ranked_among(request, filter(None, near), shares, "text" if vector is None else "both")
        text = by_text(
            [_candidate(*found) for found in self._own.best(query.terms, CANDIDATES)],
            [_candidate(*found) for found in self._replies.best(query.terms, REPLY_CANDIDATES)],
        )
        nearest: list[NearEntity] = []
        if cosines is not None:
            nearest = self._vectors.nearest(cosines, CANDIDATES)
        ranking = Ranking(nearest, text, self._shares(query, text.entities), query.least)
        ranking.contain(self._shares(query, ranking.unshared(request)))
        others: Nearness = {}
        without_vectors: list[str] = []
        if cosines is not None:
            missing = ranking.missing(request)
            nearness = {each: self._nearest_of(cosines, each) for each in missing.nearness}
            others = {each: near for each, near in nearness.items() if near}
            without_vectors = [each for each in nearness if each not in others]
            replies = map(PostRef._make, missing.replies.items())
            without_vectors += [reply.entity_id for reply in replies if reply not in self._vectors]
        return ranking.ranked(request, others, without_vectors, "text" if vector is None else "both")

    def _nearest_of(self, cosines: NDArray[np.float32], entity_id: str) -> NearEntity | None:
        return self._vectors.nearest_of(cosines, self._posts.get(entity_id, ()))

    def _shares(self, query: QueryTerms, entities: Iterable[str]) -> dict[str, float]:
        return {
            entity: query.share(self._marks.get(entity, b""), self._reply_marks.get(entity, b"")) for entity in entities
        }


def _candidate(ref: PostRef, score: float) -> Candidate:
    return Candidate(round(score, 6), *ref)
