"""The words of a text as search sees them: folded, stemmed, without those that every text has.

What an index holds and what a query asks for both come from here, so engines agree, and no character
of a query ever means anything but itself: a term is made of the letters a-z and digits only. How well
terms match is the engines' business.
"""

import re
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Protocol, cast
from zlib import crc32

import Stemmer  # pyright: ignore[reportMissingTypeStubs]

QUERY_TERMS = 64
"""Distinct terms of a query that count: the first ones, about as much as the embedding model reads of it."""

LONGEST = 64
"""Characters of a term; what is longer (a key, a blob) is known by its beginning."""

MARK = 4
"""Bytes of a mark."""

_WORD = r"[^\W_]+"
_CHUNK = re.compile(rf"{_WORD}(?:[_.:/#@+-]+{_WORD})*")
_PART = re.compile(_WORD)
_JOINT = re.compile(r"[_.:/#@+]|\d")
_PUNCTUATION = re.compile(r"[^a-z0-9]+")
"""What a typographic variant may be made of: ⑴ is (1)."""
_MARKS = re.compile(r"[\u0300-\u036f]+")

STOP_WORDS = frozenset(
    """
    a about above after again against all also am an and any are aren as at be because been before being below between
    both but by can cannot could couldn d did didn do does doesn doing don down during each either else ever few for
    from further get got had hadn has hasn have haven having he her here hers herself hi him himself his how i if in
    into is isn it its itself just let ll m me mine more most my myself no nor not of off on once only or other ought
    our ours ourselves out over own please re s same she should shouldn so some such t than thank thanks that the
    their theirs them themselves then there these they this those through to too under until up us ve very was wasn
    we were weren what when where whether which while who whom whose why will with won would wouldn yet you your
    yours yourself yourselves
    """.split()  # noqa: SIM905 - a list of words is read and kept as one
)


class _Stemmer(Protocol):
    def stemWord(self, word: str, /) -> str: ...  # noqa: N802 - PyStemmer's name


_stemmer = cast("_Stemmer", cast("Any", Stemmer).Stemmer("english", 0))  # 0: what is kept is kept below


def stem(word: str) -> str:
    """The term of one word; empty for a word that says nothing. `word` has no punctuation."""
    return _kept(word) if len(word) <= LONGEST else _stemmed(word)  # one text may be one word


def _stemmed(word: str) -> str:
    folded = word.lower() if word.isascii() else _folded(word)
    if not folded or folded in STOP_WORDS:
        return ""
    if not folded.isascii():
        return f"u{folded.encode('utf-8', 'surrogatepass').hex()}"[:LONGEST]
    return (_stemmer.stemWord(folded) if folded.isalpha() else folded)[:LONGEST]


_kept = lru_cache(maxsize=50_000)(_stemmed)


def words_of(text: str) -> list[str]:
    """The terms of the text's words in order, repeated as they are in the text."""
    return [term for word in _PART.findall(text) if (term := stem(word))]


def terms_of(text: str) -> list[str]:
    """What an index holds of a text: its words, and its identifiers (`E_4471`, `os.path`) as one term as well."""
    return list(_terms(text))


class QueryTerms:
    """A query as text: its distinct terms, of which an identifier is one beside its words."""

    def __init__(self, query: str) -> None:
        distinct: dict[str, None] = {}
        for term in _terms(query):
            distinct[term] = None
            if len(distinct) == QUERY_TERMS:
                break
        self.terms = list(distinct)
        self._marks = sorted(map(_mark, self.terms))

    @property
    def least(self) -> float:
        """The share of a text that contains any of the terms, at least."""
        return 1 / max(1, len(self.terms))

    def share(self, marks: bytes, others: bytes = b"") -> float:
        """The share of the terms that a text contains, 0..1; `marks` are the text's (`marks_of`).

        `others` are marks of more texts that belong to it, in any order.
        """
        if not self._marks:
            return 0.0
        found = self._among(marks)
        if others and len(found) < len(self._marks):
            found |= set(self._marks).intersection(memoryview(others).cast("I"))
        return len(found) / len(self._marks)

    def _among(self, marks: bytes) -> set[int]:
        """Which of the query's marks are among sorted ones."""
        held = memoryview(marks).cast("I") if marks else memoryview(b"")
        size = len(held)
        found: set[int] = set()
        place = 0
        for mark in self._marks:
            place = bisect_left(held, mark, place)
            if place == size:
                break
            if held[place] == mark:
                found.add(mark)
        return found


def marks_of(terms: Sequence[str]) -> bytes:
    """The distinct terms of a text in MARK bytes each, sorted: enough to ask whether it contains a word."""
    return array("I", sorted(set(map(_mark, terms)))).tobytes()


def _terms(text: str) -> Iterator[str]:
    for match in _CHUNK.finditer(text):
        chunk = match[0]
        if chunk.isalnum():
            if term := stem(chunk):
                yield term
            continue
        parts = _PART.findall(chunk)
        for part in parts:
            if term := stem(part):
                yield term
        if len(chunk) <= LONGEST and _JOINT.search(chunk) and (joined := _joined(parts)):
            yield joined


def _joined(parts: Sequence[str]) -> str:
    """An identifier in one piece, not stemmed: `parse_header` is not `parse_headers`."""
    folded = _folded("".join(parts))
    return folded if folded.isascii() and folded not in STOP_WORDS else ""


def _mark(term: str) -> int:
    return crc32(term.encode())


def _folded(word: str) -> str:
    """Lower case, without accents and typographic variants."""
    plain = _MARKS.sub("", unicodedata.normalize("NFKD", word)).casefold()
    return _PUNCTUATION.sub("", plain) if plain.isascii() else plain
