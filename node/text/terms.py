"""The search terms of a text: its words in lower case, without accents, stemmed, without stop words.

Indexes and queries both use these terms, so all engines agree. A term consists of the letters a-z and digits only, so
no character of a query has a special meaning to an engine.
"""

import re
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import accumulate
from typing import Any, NamedTuple, Protocol, cast
from zlib import crc32

import Stemmer  # pyright: ignore[reportMissingTypeStubs]

MAX_QUERY_TERMS = 64
"""Distinct terms of a query that count, the first ones: about as much as the embedding model reads."""

MAX_WHOLES = 4 * MAX_QUERY_TERMS
"""Ways to write the identifiers of a query that are looked for: an identifier has up to four, and with other letters in
upper case it is another one of the same terms."""

MAX_TERM_CHARACTERS = 64
"""Characters of a term; of a longer word (a key, a blob) only the beginning counts."""

REMEMBERED_WORDS = 50_000
"""Words whose terms are remembered; when there are more, all are forgotten."""

MARK = 4
"""Bytes of a mark, which is a hash of a term (`marks_of`)."""

FEW_MARKS = 64
"""In a text of up to this many marks, looking at each is faster than bisection."""

_WORD = r"[^\W_]+"
_CHUNK = re.compile(rf"{_WORD}(?:[_.:/#@+-]+{_WORD})*")
_PART = re.compile(_WORD)
_JOINT = re.compile(r"[_.:/#@+]|\d")
_VERSION = re.compile(r"(?<![^\W_])([A-Za-z]*)([0-9]+(?:\.[0-9]+)+)(?![^\W_])")
"""A version number in an identifier, and the letters before it: `v2.10.5`, `python3.12`, `tool@2.1`."""
_DOTTED = re.compile(r"[0-9]\.[0-9]")
_V = re.compile(r"(?<![^\W_])[vV](?=[0-9]+\.[0-9])")
"""The letter before a version number that means nothing."""
_SNAKE = re.compile(rf"{_WORD}(?:_+{_WORD})+")
_CAMEL = re.compile(r"[a-z0-9][A-Z]")
_ASCII_WORDS = bytes(code if chr(code).isascii() and chr(code).isalnum() else 0x20 for code in range(256))
"""Turns whatever is not part of a word into spaces."""
_ASCII_KINDS = bytes(
    ord("a") if chr(code).isascii() and chr(code).isalnum() else ord("-") if chr(code) in "_.:/#@+-" else 0x20
    for code in range(256)
)
"""Turns what is part of a word into `a`, what joins words into an identifier into `-`, and all else into spaces."""
_MAY_JOIN = b"-a"
"""Occurs in every text, translated to these kinds, that has an identifier."""
_PUNCTUATION = re.compile(r"[^a-z0-9]+")
"""Removed after NFKD, which turns ⑴ into (1)."""
_ACCENTS = re.compile(r"[\u0300-\u036f]+")
_LONG_GAP = re.compile(r"([^\w\x00-\x7f]{30})[^\w\x00-\x7f]+")
"""Marks, among others, more in a row than any word has (UAX #15, section 13). NFC sorts those that follow each other,
in a time that grows with the square of their number; what is left divides words all the same."""

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


_stemmer = cast("_Stemmer", cast("Any", Stemmer).Stemmer("english", 0))  # 0: no cache, there is one below


class RememberedTerms(dict[str, str]):
    """Terms by word: cheaper to look up than in an `lru_cache`, which reorders its entries each time."""

    def __missing__(self, word: str) -> str:
        term = _stemmed(word)
        if len(word) <= MAX_TERM_CHARACTERS:  # a whole text may be one word
            if len(self) >= REMEMBERED_WORDS:
                self.clear()
            self[word] = term
        return term


def _stemmed(word: str) -> str:
    folded = word.lower() if word.isascii() else _folded(word)
    if folded in STOP_WORDS:
        return ""
    if not folded.isascii():
        return f"u{folded.encode('utf-8', 'surrogatepass').hex()}"[:MAX_TERM_CHARACTERS]
    return (_stemmer.stemWord(folded) if folded.isalpha() else folded)[:MAX_TERM_CHARACTERS]


stem = RememberedTerms().__getitem__
"""The term of one word without punctuation; empty for a stop word."""


def terms_of(text: str) -> list[str]:
    """The terms of a text in order: its words, and each identifier (`E_4471`, `os.path`) also as a whole.

    An identifier may be in a longer one: `os.set_path` contains `set_path`, and `v2.10.5` contains `2.10.5`.
    """
    if text.isascii() and _MAY_JOIN not in (raw := text.encode()).translate(_ASCII_KINDS):  # most texts
        chunks = raw.translate(_ASCII_WORDS).decode().split()
    else:
        chunks = cast("list[str]", _CHUNK.findall(_composed(text)))
        if not all(map(str.isalnum, chunks)):
            return list(_terms(chunks))
    return list(filter(None, map(stem, chunks)))


class QueryTerms:
    """The distinct terms of a query.

    Its identifiers may be written in other ways in a text: `ERR_7731` as `err7731`, `maxSize` as `max_size`. A text
    that has one as a whole contains all of its terms. A version number is one term, which is contained only as a whole:
    nearly every long text has the numbers 2, 10 and 5 somewhere, and 105 does not stand for 10.5.
    """

    def __init__(self, query: str) -> None:
        counted: dict[str, None] = {}
        wholes: list[_Whole] = []
        # Each once: a query has room for 2,500 times the same identifier, which took 26 ms.
        for chunk in dict.fromkeys(cast("list[str]", _CHUNK.findall(_composed(query)))):
            if chunk.isalnum() and not _CAMEL.search(chunk):
                if term := stem(chunk):
                    counted[term] = None
            else:
                terms, found = _asked(chunk)
                counted |= dict.fromkeys(terms)
                wholes += found
            if len(counted) >= MAX_QUERY_TERMS or len(wholes) >= MAX_WHOLES:
                break
        self._counted = list(counted)[:MAX_QUERY_TERMS]
        others = (each.term for each in wholes)
        self.terms = list(dict.fromkeys([*self._counted, *others]))[:MAX_QUERY_TERMS]
        """The terms that are searched for: those of the query, and its identifiers written in other ways."""
        self.shown = [*self.terms, *(part for each in wholes for part in each.parts)]
        """Terms of the words that show, in a text, where the query is found."""
        marks = frozenset(map(_mark, self._counted))
        self._plain = marks.difference(_mark(each.term) for each in wholes if each.parts)
        """The marks that each count by themselves."""
        self._wholes = [
            (frozenset(map(_mark, (each.term, *each.parts))), marks.intersection(map(_mark, each.contains)))
            for each in wholes
        ]
        """Marks that count together, and those that a text with all of them contains."""
        self._marks = self._plain.union(*(needed for needed, _ in self._wholes))
        self._ordered = sorted(self._marks)

    @property
    def least(self) -> float:
        """The smallest share above 0: that of a text which contains one of the terms."""
        return 1 / max(1, len(self._counted))

    def share(self, marks: bytes, others: bytes = b"") -> float:
        """The share of the terms that a text contains, 0..1. `marks` are those of the text (`marks_of`).

        `others`: marks of further texts that belong to it, in any order.
        """
        if not self._marks:
            return 0.0
        found = self._among(marks)
        if others and len(found) < len(self._marks):
            found |= self._marks.intersection(memoryview(others).cast("I"))
        if self._wholes:
            together = (contained for needed, contained in self._wholes if needed <= found)
            found = self._plain.intersection(found).union(*together)
        return len(found) / len(self._counted)

    def _among(self, marks: bytes) -> Set[int]:
        """The marks of the query that are among `marks`, which are sorted."""
        sorted_marks = memoryview(marks).cast("I")
        size = len(sorted_marks)
        if size <= FEW_MARKS:
            return self._marks.intersection(sorted_marks)
        found: set[int] = set()
        index = 0
        for mark in self._ordered:
            index = bisect_left(sorted_marks, mark, index)
            if index == size:
                break
            if sorted_marks[index] == mark:
                found.add(mark)
        return found


def marks_of(terms: Sequence[str]) -> bytes:
    """The distinct terms of a text as sorted hashes of MARK bytes, which tell whether it contains a term. Two terms may
    have the same hash, which then occurs twice."""
    return array("I", sorted(map(crc32, map(str.encode, set(terms))))).tobytes()


def _terms(chunks: Iterable[str]) -> Iterator[str]:
    for chunk in chunks:
        if chunk.isalnum():
            if term := stem(chunk):
                yield term
            continue
        parts = _PART.findall(chunk)
        for part in parts:
            if term := stem(part):
                yield term
        if len(chunk) <= MAX_TERM_CHARACTERS and _JOINT.search(chunk):
            if "_" in chunk or "." in chunk:
                yield from _inner(chunk)
            if joined := _joined(parts):
                yield joined


def _inner(chunk: str) -> Iterator[str]:
    """The terms of the identifiers in a longer one: `os.set_path` contains `set_path`, `tool@v2.10.5` contains
    `2.10.5` and `2.10`, and `python3.12` contains `python`."""
    if "_" in chunk and not chunk.replace("_", "").isalnum():
        for words in _SNAKE.findall(chunk):
            if joined := _joined(_PART.findall(words)):
                yield joined
    if _DOTTED.search(chunk):
        for letters, version in _VERSION.findall(chunk):
            first, second, *rest = version.split(".")
            if letters:
                yield from filter(None, (_name_of(letters), first))
            shorter = list(accumulate(rest, initial=first + second))
            yield from shorter if len(version) < len(chunk) else shorter[:-1]


def _name_of(letters: str) -> str:
    """The term of what stands before a version number; empty for the v of one."""
    return "" if letters in "vV" else stem(letters)


class _Whole(NamedTuple):
    """A way to write an identifier of a query."""

    term: str
    contains: Sequence[str]
    """Terms of the query that a text with it contains."""
    parts: Sequence[str] = ()
    """Terms that the text must contain as well."""


def _asked(chunk: str) -> tuple[list[str], list[_Whole]]:
    """The terms of an identifier of a query that are counted, and the ways to write it as a whole."""
    terms = list(_terms([chunk]))
    if len(chunk) > MAX_TERM_CHARACTERS:
        return terms, []
    if chunk.isalnum():
        joined = _joined([chunk])
        return terms, [_Whole(joined, terms)] if joined else []
    if not _JOINT.search(chunk):
        return terms, []
    if versions := _VERSION.findall(chunk):
        names = [_name_of(letters) for letters, _ in versions]
        numbers = [version.replace(".", "") for _, version in versions]
        terms = [*_terms(_PART.findall(_VERSION.sub(" ", chunk))), *filter(None, names), *numbers]
    wholes: list[_Whole] = []
    for _, version in versions:
        joined = version.replace(".", "")
        wholes += [_Whole(joined, [joined], version.split(".")), _Whole(f"v{joined}", [joined])]
    for joined in dict.fromkeys((_joined(_PART.findall(chunk)), _joined(_PART.findall(_V.sub("", chunk))))):
        if joined and not joined.isdigit():  # 27.11 is not 2711
            wholes += [_Whole(each, terms) for each in dict.fromkeys((joined, stem(joined)))]
    return terms, wholes


def _joined(parts: Sequence[str]) -> str:
    """The term of a whole identifier; not stemmed, since `parse_header` is not `parse_headers`."""
    folded = _folded("".join(parts))
    return folded if folded.isascii() and folded not in STOP_WORDS else ""


def _composed(text: str) -> str:
    """The text with accents composed into their letters: an accent by itself, as macOS writes it, would divide a
    word."""
    return unicodedata.normalize("NFC", _LONG_GAP.sub(r"\1", text))


def _mark(term: str) -> int:
    return crc32(term.encode())


def _folded(word: str) -> str:
    """Lower case, without accents and typographic variants."""
    plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", word)).casefold()
    return _PUNCTUATION.sub("", plain) if plain.isascii() else plain
