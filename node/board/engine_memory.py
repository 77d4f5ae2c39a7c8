"""The search index in a worker's memory, for a Redis without a query engine: exact cosines and BM25.

It answers what `engine_redisearch` answers, with the same scores. Made for 50,000 threads; that is
about 200 MB. It blocks, so it lives in one thread; `memory_worker` feeds it and asks it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from node.board.engine_bm25 import Postings
from node.board.ranking import CANDIDATES, Match, Near, Question, meaning_of, ranked
from node.text.terms import QueryTerms

FIRST_ROOM = 1024
"""Vectors for which there is room at first; doubled when full."""

NOWHERE = -2.0
"""The cosine of a row without a vector: below all others."""


class Vectors:
    """Vectors of passages in one matrix."""

    def __init__(self) -> None:
        self._matrix: NDArray[np.float32] = np.zeros((0, 0), np.float32)
        self._owners: list[tuple[str, str] | None] = []
        self._free: list[int] = []
        self._rows: dict[str, dict[str, int]] = {}

    def put(self, thread_id: str, vectors: Mapping[str, bytes]) -> None:
        """Set the vectors of a thread's passages; those it had before are forgotten."""
        self.remove(thread_id)
        rows = self._rows[thread_id] = {}
        for passage, raw in vectors.items():
            vector = np.frombuffer(raw, np.float32)
            rows[passage] = row = self._place(len(vector))
            self._matrix[row] = vector
            self._owners[row] = (thread_id, passage)

    def remove(self, thread_id: str) -> None:
        """Forget the vectors of a thread."""
        for row in self._rows.pop(thread_id, {}).values():
            self._owners[row] = None
            self._matrix[row] = 0
            self._free.append(row)

    def cosines(self, query: bytes) -> NDArray[np.float32]:
        """Of every row with the query. Vectors have length 1."""
        if not self._owners:
            return np.zeros(0, np.float32)
        cosines: NDArray[np.float32] = self._matrix[: len(self._owners)] @ np.frombuffer(query, np.float32)
        cosines[self._free] = NOWHERE
        return cosines

    def nearest(self, cosines: NDArray[np.float32], most: int) -> list[Near]:
        """The threads of the nearest passages, best first."""
        places: NDArray[Any] = np.arange(len(cosines))
        if len(cosines) > most:
            places = np.argpartition(cosines, len(cosines) - most)[-most:]
        owned = [(owner, float(cosines[place])) for place in places if (owner := self._owners[int(place)])]
        found: dict[str, Near] = {}
        for (thread_id, passage), cosine in sorted(owned, key=lambda each: each[1], reverse=True):
            found.setdefault(thread_id, Near(thread_id, passage, meaning_of(cosine)))
        return sorted(found.values(), key=lambda near: (near.meaning, near.thread_id), reverse=True)

    def of(self, cosines: NDArray[np.float32], threads: Iterable[str]) -> Iterable[Near]:
        """How near these threads are, for those that have vectors."""
        for thread_id in threads:
            rows = self._rows.get(thread_id)
            if rows:
                cosine, passage = max((float(cosines[row]), name) for name, row in rows.items())
                yield Near(thread_id, passage, meaning_of(cosine))

    def _place(self, dimension: int) -> int:
        """A row for one more vector."""
        if self._free:
            return self._free.pop()
        row = len(self._owners)
        if row == len(self._matrix):
            larger = np.zeros((max(FIRST_ROOM, 2 * row), dimension), np.float32)
            larger[:row] = self._matrix[:, :dimension] if row else 0
            self._matrix = larger
        self._owners.append(None)
        return row


class MemoryIndex:
    """All open threads of a node."""

    def __init__(self) -> None:
        self._vectors = Vectors()
        self._postings = Postings()
        self._marks: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._marks)

    def put(self, thread_id: str, terms: str, marks: bytes, vectors: Mapping[str, bytes]) -> None:
        """Add a thread, or replace what is known of it."""
        self._marks[thread_id] = marks
        self._postings.put(thread_id, terms.split())
        self._vectors.put(thread_id, vectors)

    def remove(self, thread_id: str) -> None:
        """Forget a thread."""
        self._marks.pop(thread_id, None)
        self._postings.remove(thread_id)
        self._vectors.remove(thread_id)

    def find(self, question: Question, vector: bytes | None) -> list[Match]:
        """The threads that reach the threshold, by text alone if there is no vector."""
        asked = QueryTerms(question.text)
        scored = [(round(score, 6), thread) for thread, score in self._postings.best(asked.terms, CANDIDATES)]
        by_text = [thread for _, thread in sorted(scored, reverse=True)]
        near: dict[str, Near] = {}
        by_meaning: list[str] = []
        if vector is not None:
            cosines = self._vectors.cosines(vector)
            near = {each.thread_id: each for each in self._vectors.nearest(cosines, CANDIDATES)}
            by_meaning = list(near)
            near |= {each.thread_id: each for each in self._vectors.of(cosines, set(by_text) - near.keys())}
        shares = {thread: asked.share(self._marks.get(thread, b"")) for thread in {*by_text, *by_meaning}}
        return ranked(question, by_meaning, by_text, near, shares)
