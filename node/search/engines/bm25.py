"""BM25 over documents that are added and removed at any time, for the index in memory.

The formula and the constants are those of RediSearch's BM25STD, so that both engines rank alike. Libraries (bm25s,
rank-bm25) index a corpus once and must be rebuilt after every change, which takes seconds for 50,000 threads. SQLite's
FTS5 uses another formula and takes five to ten times as long.
"""

import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from sys import intern
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

K1 = 1.2
B = 0.5

FIRST_DOCUMENTS = 1024
"""Documents for which there is room at first. The room is doubled when it is full."""

N = TypeVar("N", bound=Hashable)
"""Type of the names of documents."""


class Postings(Generic[N]):
    """Documents as bags of terms. Each document has a number, which is reused after the document is removed."""

    def __init__(self) -> None:
        self._postings: dict[str, tuple[array[int], array[int]]] = {}
        """By term: the numbers of the documents that contain it, ascending, and its frequency in each."""
        self._documents: dict[N, tuple[int, tuple[str, ...]]] = {}
        """By name: the number and the distinct terms of the document."""
        self._names: list[N] = []
        """Names by number. A free number still has the name of its last document."""
        self._free: list[int] = []
        self._lengths = np.zeros(FIRST_DOCUMENTS, np.float32)
        """Number of terms in each document, by the document's number."""
        self._total = 0
        """Number of terms in all documents."""

    def __len__(self) -> int:
        return len(self._documents)

    def put(self, name: N, terms: Sequence[str]) -> None:
        """Add a document, or replace the document of that name."""
        self.remove(name)
        number = self._number_for(name)
        counted = Counter(map(intern, terms))  # interned: a term is in memory once, however many documents have it
        self._documents[name] = number, tuple(counted)
        self._lengths[number] = len(terms)
        self._total += len(terms)
        for term, count in counted.items():
            numbers, counts = self._postings.setdefault(term, (array("I"), array("I")))
            index = bisect_left(numbers, number)
            numbers.insert(index, number)
            counts.insert(index, count)

    def remove(self, name: N) -> None:
        """Remove a document, if there is one of that name."""
        if name not in self._documents:
            return
        number, terms = self._documents.pop(name)
        self._total -= int(self._lengths[number])
        self._free.append(number)
        for term in terms:
            numbers, counts = self._postings[term]
            index = bisect_left(numbers, number)
            del numbers[index], counts[index]
            if not numbers:
                del self._postings[term]

    def best(self, terms: Sequence[str], most: int) -> list[tuple[N, float]]:
        """Return the names and scores of at most `most` documents that contain any of the terms, best first."""
        scores = np.zeros(len(self._names), np.float32)
        average = self._total / max(1, len(self))
        for term in terms:
            if postings := self._postings.get(term):
                # Copies, because an array cannot grow while numpy uses its memory.
                numbers, counts = np.array(postings[0], np.uint32), np.array(postings[1], np.float32)
                rarity = math.log(1 + (len(self) - len(numbers) + 0.5) / (len(numbers) + 0.5))
                norm = K1 * (1 - B + B * self._lengths[numbers] / average)
                scores[numbers] += rarity * counts * (K1 + 1) / (counts + norm)
        return [(self._names[index], float(scores[index])) for index in _largest(scores, most)]

    def _number_for(self, name: N) -> int:
        if self._free:
            number = self._free.pop()
            self._names[number] = name
            return number
        number = len(self._names)
        self._names.append(name)
        if number == len(self._lengths):
            self._lengths = np.concatenate([self._lengths, np.zeros(number, np.float32)])
        return number


def _largest(scores: NDArray[np.float32], most: int) -> list[int]:
    """Return the indexes of at most `most` scores above 0, the largest first."""
    indexes = np.argpartition(scores, len(scores) - most)[-most:] if len(scores) > most else np.arange(len(scores))
    ordered = indexes[np.argsort(-scores[indexes], kind="stable")]
    return [int(index) for index in ordered if scores[index] > 0]
