"""The words of a text as search sees them: folded, stemmed, without those that every text has.

What an index holds and what a query asks for both come from here, so engines agree, and no character
of a query ever means anything but itself: a term is made of the letters a-z and digits only. How well
terms match is the engines' business.
"""

import re
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol, cast
from zlib import crc32

import Stemmer  # pyright: ignore[reportMissingTypeStubs]

QUERY_TERMS = 64
"""Distinct terms of a query that count: the first ones, about as much as the embedding model reads of it."""

LONGEST = 64
"""Characters of a term; what is longer (a key, a blob) is known by its beginning."""

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


_stemmer = cast("_Stemmer", cast("Any", Stemmer).Stemmer("english"))


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """The term of one word; empty for a word that says nothing. `word` has no punctuation."""
    folded = word.lower() if word.isascii() else _folded(word)
    if not folded or folded in STOP_WORDS:
        return ""
    if not folded.isascii():
        return f"u{folded.encode('utf-8', 'surrogatepass').hex()}"[:LONGEST]
    return (_stemmer.stemWord(folded) if folded.isalpha() else folded)[:LONGEST]


def words_of(text: str) -> list[str]:
    """The terms of the text's words in order, repeated as they are in the text."""
    return [term for word in _PART.findall(text) if (term := stem(word))]


def terms_of(text: str) -> list[str]:
    """What an index holds of a text: its words, and its identifiers (`E_4471`, `os.path`) as one term as well."""
    found: list[str] = []
    for chunk in _CHUNK.findall(text):
        if chunk.isalnum():
            if term := stem(chunk):
                found.append(term)
            continue
        parts = _PART.findall(chunk)
        found += [term for part in parts if (term := stem(part))]
        if len(chunk) <= LONGEST and _JOINT.search(chunk) and (joined := _joined(parts)):
            found.append(joined)
    return found


class QueryTerms:
    """A query as text: its distinct terms, of which an identifier is one beside its words."""

    def __init__(self, query: str) -> None:
        self.terms = list(dict.fromkeys(terms_of(query)))[:QUERY_TERMS]
        self._marks = sorted(map(_mark, self.terms))

    def share(self, marks: bytes) -> float:
        """The share of the terms that a text contains, 0..1; `marks` are the text's (`marks_of`)."""
        if not self._marks or not marks:
            return 0.0
        held = memoryview(marks).cast("I")
        size = len(held)
        found = 0
        place = 0
        for mark in self._marks:
            place = bisect_left(held, mark, place)
            if place == size:
                break
            found += held[place] == mark
        return found / len(self._marks)


def marks_of(terms: Sequence[str]) -> bytes:
    """The distinct terms of a text in four bytes each, sorted: enough to ask whether it contains a word."""
    return array("I", sorted(set(map(_mark, terms)))).tobytes()


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
