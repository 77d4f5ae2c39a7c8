"""BM25 over documents that come and go: what a query engine does, for the index in memory.

The libraries (bm25s, rank-bm25) index a corpus once and are rebuilt for every change, which takes
seconds at 50,000 threads; this keeps posting lists that grow. Same formula and constants as
RediSearch's BM25STD, so both engines rank alike.
"""

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

K1 = 1.2
B = 0.5

GARBAGE = 0.5
"""Share of dead documents at which the posting lists are written anew."""

Floats = NDArray[np.float32]


class Postings:
    """Documents as bags of terms. A document that changes is a new one; its old number is dead."""

    def __init__(self) -> None:
        self._postings: dict[str, tuple[array[int], array[int]]] = {}
        self._lengths = np.zeros(1024, np.float32)
        """Terms by number of the document; 0 = dead, or not yet used."""
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._total = 0.0

    def __len__(self) -> int:
        return len(self._numbers)

    def put(self, name: str, terms: Sequence[str]) -> None:
        """Add a document, or replace the one of that name."""
        self.remove(name)
        number = len(self._names)
        self._names.append(name)
        self._numbers[name] = number
        if number == len(self._lengths):
            self._lengths = np.concatenate([self._lengths, np.zeros(number, np.float32)])
        self._lengths[number] = len(terms)
        self._total += len(terms)
        for term, count in Counter(terms).items():
            numbers, counts = self._postings.setdefault(term, (array("I"), array("I")))
            numbers.append(number)
            counts.append(count)

    def remove(self, name: str) -> None:
        """Forget a document; nothing happens if there is none of that name."""
        number = self._numbers.pop(name, None)
        if number is None:
            return
        self._total -= float(self._lengths[number])
        self._lengths[number] = 0
        if len(self._names) > 1024 and len(self._numbers) < GARBAGE * len(self._names):
            self._compact()

    def best(self, terms: Sequence[str], most: int) -> list[tuple[str, float]]:
        """Names and scores of the documents with any of the terms, best first."""
        if not self._numbers:
            return []
        scores = np.zeros(len(self._names), np.float32)
        lengths = self._lengths[: len(self._names)]
        average = self._total / len(self._numbers)
        for term in terms:
            postings = self._postings.get(term)
            if postings is None:
                continue
            # Copied: an array that is looked at cannot grow.
            numbers = np.array(postings[0], np.uint32)
            counts = np.array(postings[1], np.float32)
            alive = lengths[numbers] > 0
            numbers, counts = numbers[alive], counts[alive]
            norm = K1 * (1 - B + B * lengths[numbers] / average)
            scores[numbers] += self._rarity(len(numbers)) * counts * (K1 + 1) / (counts + norm)
        return [(self._names[place], float(scores[place])) for place in _largest(scores, most)]

    def _rarity(self, documents: int) -> float:
        """The inverse document frequency of a term that so many documents have."""
        return math.log(1 + (len(self._numbers) - documents + 0.5) / (documents + 0.5))

    def _compact(self) -> None:
        """Number the living documents anew."""
        alive = self._lengths[: len(self._names)] > 0
        renumbered = np.cumsum(alive, dtype=np.uint32) - 1
        for term in list(self._postings):
            numbers = np.array(self._postings[term][0], np.uint32)
            kept = alive[numbers]
            if not kept.any():
                del self._postings[term]
                continue
            counts = np.array(self._postings[term][1], np.uint32)
            self._postings[term] = (_array(renumbered[numbers[kept]]), _array(counts[kept]))
        self._names = [name for name, living in zip(self._names, alive, strict=True) if living]
        self._lengths = np.concatenate([self._lengths[: len(alive)][alive], np.zeros(1024, np.float32)])
        self._numbers = {name: number for number, name in enumerate(self._names)}


def _array(values: NDArray[Any]) -> "array[int]":
    return array("I", values.astype(np.uint32).tobytes())


def _largest(scores: Floats, most: int) -> list[int]:
    """Places of the largest scores above 0, largest first."""
    places = np.argpartition(scores, len(scores) - most)[-most:] if len(scores) > most else np.arange(len(scores))
    ordered = places[np.argsort(-scores[places], kind="stable")]
    return [int(place) for place in ordered if scores[place] > 0]
