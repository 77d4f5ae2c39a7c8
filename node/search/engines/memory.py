"""The search index in a worker's memory, for a Redis without a query engine: exact cosines and BM25.

It gives what `redisearch` gives, with the same scores. Made for 50,000 threads, which take about 200 MB. Its calls
block, so it lives in one thread; `node.search.indexing.memory_replica` feeds it and asks it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from node.search.engines.bm25 import Postings
from node.search.ranking import (
    CANDIDATES,
    REPLY_CANDIDATES,
    Candidate,
    NearThread,
    RankedThread,
    SearchRequest,
    by_text,
    candidates,
    meaning_of,
    ranked,
)
from node.search.threads import OWN, Place
from node.text.terms import QueryTerms

FIRST_VECTORS = 1024
"""Vectors for which there is room at first; doubled when full."""

NO_VECTOR = -2.0
"""In place of a cosine, where a row has no vector: below all cosines."""


class PostDocument(NamedTuple):
    """What search holds of one post."""

    place: Place
    terms: str = ""
    """Parted by spaces."""
    marks: bytes = b""
    """Of a thread's own text; those of its replies are kept together."""
    vectors: Mapping[str, bytes] = {}
    """By the name of the passage."""


class Vectors:
    """Vectors of passages in one matrix."""

    def __init__(self) -> None:
        self._matrix: NDArray[np.float32] = np.zeros((0, 0), np.float32)
        self._owners: list[tuple[str, str] | None] = []
        """By row: the thread and the name of the passage; None where the row is free."""
        self._free: list[int] = []
        self._rows: dict[Place, list[int]] = {}

    def put(self, place: Place, vectors: Mapping[str, bytes]) -> None:
        """Set the vectors of a post's passages; those it had before are forgotten."""
        for row in self._rows.pop(place, ()):
            self._owners[row] = None
            self._free.append(row)
        if vectors:
            self._rows[place] = [self._add(place.thread_id, *each) for each in vectors.items()]

    def cosines(self, query: bytes) -> NDArray[np.float32]:
        """Of every row with the query. Vectors have length 1."""
        if not self._owners:
            return np.zeros(0, np.float32)
        cosines: NDArray[np.float32] = self._matrix[: len(self._owners)] @ np.frombuffer(query, np.float32)
        cosines[self._free] = NO_VECTOR
        return cosines

    def nearest(self, cosines: NDArray[np.float32], most: int) -> list[NearThread]:
        """The threads of the nearest passages, best first."""
        rows: NDArray[Any] = np.arange(len(cosines))
        if len(cosines) > most:
            rows = np.argpartition(cosines, len(cosines) - most)[-most:]
        found: dict[str, NearThread] = {}
        for row in sorted(map(int, rows), key=lambda row: float(cosines[row]), reverse=True):
            if owner := self._owners[row]:
                thread_id, passage = owner
                found.setdefault(thread_id, NearThread(thread_id, passage, meaning_of(float(cosines[row]))))
        return sorted(found.values(), key=lambda near: (near.meaning, near.thread_id), reverse=True)

    def nearest_of(self, cosines: NDArray[np.float32], posts: Iterable[Place]) -> NearThread | None:
        """How near the thread of these posts is, if they have vectors."""
        rows = [row for place in posts for row in self._rows.get(place, ())]
        if not rows:
            return None
        cosine, owner = max((float(cosines[row]), self._owners[row] or ("", "")) for row in rows)
        return NearThread(*owner, meaning_of(cosine))

    def _add(self, thread_id: str, passage: str, raw: bytes) -> int:
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
        self._owners[row] = (thread_id, passage)
        return row


class MemoryIndex:
    """All open threads of a node."""

    def __init__(self) -> None:
        self._vectors = Vectors()
        # Apart, as in a query engine: no number of replies keeps a thread from being found by its own text.
        self._threads = Postings[Place]()
        self._replies = Postings[Place]()
        self._posts: dict[str, set[Place]] = {}
        """The posts of each thread."""
        self._marks: dict[str, bytes] = {}
        self._reply_marks: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._threads)

    def put(self, document: PostDocument) -> None:
        """Add a post, or replace what is known of it; one without terms and vectors is forgotten."""
        place = document.place
        postings = self._threads if place.seq == OWN else self._replies
        if document.terms or document.vectors:
            self._posts.setdefault(place.thread_id, set()).add(place)
            postings.put(place, document.terms.split())
            if place.seq == OWN:
                self._marks[place.thread_id] = document.marks
        else:
            self._posts.get(place.thread_id, set()).discard(place)
            postings.remove(place)
        self._vectors.put(place, document.vectors)

    def put_reply_marks(self, thread_id: str, marks: bytes) -> None:
        """Set the marks of all of a thread's replies together."""
        if marks:
            self._reply_marks[thread_id] = marks
        else:
            self._reply_marks.pop(thread_id, None)

    def remove(self, thread_id: str) -> None:
        """Forget a thread."""
        self._marks.pop(thread_id, None)
        self._reply_marks.pop(thread_id, None)
        for place in self._posts.pop(thread_id, ()):
            self.put(PostDocument(place))

    def find(self, request: SearchRequest, vector: bytes | None) -> list[RankedThread]:
        """The threads that reach the threshold, by text alone if there is no vector."""
        query = QueryTerms(request.text)
        text = by_text(
            [_candidate(*found) for found in self._threads.best(query.terms, CANDIDATES)],
            [_candidate(*found) for found in self._replies.best(query.terms, REPLY_CANDIDATES)],
        )
        nearest: list[NearThread] = []
        others: list[NearThread] = []
        if vector is not None:
            cosines = self._vectors.cosines(vector)
            nearest = self._vectors.nearest(cosines, CANDIDATES)
            unknown = set(text.threads) - {near.thread_id for near in nearest}
            by_thread = (self._vectors.nearest_of(cosines, self._posts[thread_id]) for thread_id in unknown)
            others = [near for near in by_thread if near]
        shares = {
            thread: query.share(self._marks.get(thread, b""), self._reply_marks.get(thread, b""))
            for thread in candidates(text, nearest)
        }
        return ranked(request, nearest, text, others, shares, query.least)


def _candidate(place: Place, score: float) -> Candidate:
    return Candidate(round(score, 6), *place)
