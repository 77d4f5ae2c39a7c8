"""The search index in a worker's memory, for a Redis without a query engine: exact cosines and BM25.

It answers what `redisearch` answers, with the same scores. Made for 50,000 threads; that is
about 200 MB. It blocks, so it lives in one thread; `node.search.indexing.memory_replica` feeds it and asks it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from node.search.engines.bm25 import Postings
from node.search.passages import place_of
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
        self._add(thread_id, vectors)

    def put_post(self, thread_id: str, seq: int, vectors: Mapping[str, bytes]) -> None:
        """Set those of one post; those that it had before are forgotten."""
        rows = self._rows.get(thread_id, {})
        for passage in [passage for passage in rows if place_of(passage)[0] == seq]:
            self._clear(rows.pop(passage))
        self._add(thread_id, vectors)

    def remove(self, thread_id: str) -> None:
        """Forget the vectors of a thread."""
        for row in self._rows.pop(thread_id, {}).values():
            self._clear(row)

    def _add(self, thread_id: str, vectors: Mapping[str, bytes]) -> None:
        rows = self._rows.setdefault(thread_id, {}) if vectors else {}
        for passage, raw in vectors.items():
            vector = np.frombuffer(raw, np.float32)
            rows[passage] = row = self._place(len(vector))
            self._matrix[row] = vector
            self._owners[row] = (thread_id, passage)

    def _clear(self, row: int) -> None:
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

    def nearest(self, cosines: NDArray[np.float32], most: int) -> list[NearThread]:
        """The threads of the nearest passages, best first."""
        places: NDArray[Any] = np.arange(len(cosines))
        if len(cosines) > most:
            places = np.argpartition(cosines, len(cosines) - most)[-most:]
        owned = [(owner, float(cosines[place])) for place in places if (owner := self._owners[int(place)])]
        found: dict[str, NearThread] = {}
        for (thread_id, passage), cosine in sorted(owned, key=lambda each: each[1], reverse=True):
            found.setdefault(thread_id, NearThread(thread_id, passage, meaning_of(cosine)))
        return sorted(found.values(), key=lambda near: (near.meaning, near.thread_id), reverse=True)

    def of(self, cosines: NDArray[np.float32], threads: Iterable[str]) -> Iterable[NearThread]:
        """How near these threads are, for those that have vectors."""
        for thread_id in threads:
            rows = self._rows.get(thread_id)
            if rows:
                cosine, passage = max((float(cosines[row]), name) for name, row in rows.items())
                yield NearThread(thread_id, passage, meaning_of(cosine))

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
        self._threads = Postings()
        """Threads by their own text."""
        self._replies = Postings()
        """Replies, by thread and number."""
        self._numbers: dict[str, set[int]] = {}
        """Those of the replies of each thread."""
        self._marks: dict[str, bytes] = {}
        self._reply_marks: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._marks)

    def put(self, thread_id: str, terms: str, marks: bytes, vectors: Mapping[str, bytes]) -> None:
        """Add a thread's own text, or replace what is known of it."""
        self._marks[thread_id] = marks
        self._threads.put(thread_id, terms.split())
        self._vectors.put_post(thread_id, 0, vectors)

    def put_reply(self, thread_id: str, seq: int, terms: str, vectors: Mapping[str, bytes]) -> None:
        """Add a reply, or replace what is known of it; one without terms and vectors is forgotten."""
        if terms or vectors:
            self._numbers.setdefault(thread_id, set()).add(seq)
            self._replies.put(f"{thread_id}:{seq}", terms.split())
        else:
            self._numbers.get(thread_id, set()).discard(seq)
            self._replies.remove(f"{thread_id}:{seq}")
        self._vectors.put_post(thread_id, seq, vectors)

    def put_reply_marks(self, thread_id: str, marks: bytes) -> None:
        """Set the marks of a thread's replies."""
        if marks:
            self._reply_marks[thread_id] = marks
        else:
            self._reply_marks.pop(thread_id, None)

    def remove(self, thread_id: str) -> None:
        """Forget a thread."""
        self._marks.pop(thread_id, None)
        self._reply_marks.pop(thread_id, None)
        self._threads.remove(thread_id)
        for seq in self._numbers.pop(thread_id, ()):
            self._replies.remove(f"{thread_id}:{seq}")
        self._vectors.remove(thread_id)

    def find(self, question: SearchRequest, vector: bytes | None) -> list[RankedThread]:
        """The threads that reach the threshold, by text alone if there is no vector."""
        asked = QueryTerms(question.text)
        text = by_text(
            [_candidate(*found) for found in self._threads.best(asked.terms, CANDIDATES)],
            [_candidate(*found) for found in self._replies.best(asked.terms, REPLY_CANDIDATES)],
        )
        near: dict[str, NearThread] = {}
        by_meaning: list[str] = []
        if vector is not None:
            cosines = self._vectors.cosines(vector)
            near = {each.thread_id: each for each in self._vectors.nearest(cosines, CANDIDATES)}
            by_meaning = list(near)
            near |= {each.thread_id: each for each in self._vectors.of(cosines, set(text.threads) - near.keys())}
        shares = {
            thread: asked.share(self._marks.get(thread, b""), self._reply_marks.get(thread, b""))
            for thread in candidates(text, by_meaning)
        }
        shares |= {thread: max(shares[thread], asked.least) for thread in text.threads}
        return ranked(question, by_meaning, text.threads, near, shares, text.replies)


def _candidate(name: str, score: float) -> Candidate:
    thread_id, _, seq = name.partition(":")
    return Candidate(round(score, 6), thread_id, int(seq or 0))
