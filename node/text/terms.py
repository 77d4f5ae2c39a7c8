"""The search terms of a text: its words in lower case, without accents, stemmed, without stop words.

Indexes and queries both use these terms, so that all engines agree. A term consists only of the letters a-z and digits,
so that no character of a query can have a special meaning to an engine.
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
"""Distinct terms of a query that count, the first ones: about as many as the embedding model reads."""

MAX_WHOLES = 4 * MAX_QUERY_TERMS
"""Maximum number of spellings of a query's identifiers that are looked for. An identifier has up to four, and the same
identifier in another case counts as another one with the same terms."""

MAX_TERM_CHARACTERS = 64
"""Greatest length of a term, in characters. Only the beginning of a longer word (a key, a blob) counts."""

REMEMBERED_WORDS = 50_000
"""Words whose terms are cached. When there are more, the cache is cleared."""

MARK = 4
"""Size of a mark, in bytes. A mark is a hash of a term (`marks_of`)."""

FEW_MARKS = 64
"""In a text of up to this many marks, looking at each mark is faster than bisection."""

_WORD = r"[^\W_]+"
_CHUNK = re.compile(rf"{_WORD}(?:[_.:/#@+-]+{_WORD})*")
_PART = re.compile(_WORD)
_JOINT = re.compile(r"[_.:/#@+]|\d")
_VERSION = re.compile(r"(?<![^\W_])([A-Za-z]*)([0-9]+(?:\.[0-9]+)+)(?![^\W_])")
"""A version number in an identifier, and the letters before it: `v2.10.5`, `python3.12`, `tool@2.1`."""
_DOTTED = re.compile(r"[0-9]\.[0-9]")
_V = re.compile(r"(?<![^\W_])[vV](?=[0-9]+\.[0-9])")
"""The `v` before a version number, which has no meaning of its own."""
_SNAKE = re.compile(rf"{_WORD}(?:_+{_WORD})+")
_CAMEL = re.compile(r"[a-z0-9][A-Z]")
_ASCII_WORDS = bytes(code if chr(code).isascii() and chr(code).isalnum() else 0x20 for code in range(256))
"""Translates everything that is not part of a word into spaces."""
_ASCII_KINDS = bytes(
    ord("a") if chr(code).isascii() and chr(code).isalnum() else ord("-") if chr(code) in "_.:/#@+-" else 0x20
    for code in range(256)
)
"""Translates characters of words into `a`, characters that join words to identifiers into `-`, all others to spaces."""
_MAY_JOIN = b"-a"
"""A text with an identifier contains this after translation with `_ASCII_KINDS`."""
_PUNCTUATION = re.compile(r"[^a-z0-9]+")
"""Characters that are removed after NFKD, which turns ⑴ into (1)."""
_ACCENTS = re.compile(r"[\u0300-\u036f]+")
_LONG_GAP = re.compile(r"([^\w\x00-\x7f]{30})[^\w\x00-\x7f]+")
"""A run of non-ASCII characters outside words, such as combining marks, that is longer than any text needs (UAX #15,
section 13). NFC sorts adjacent combining marks in a time that grows with the square of their number. Therefore the run
is cut to 30 characters, which divide words just as well."""

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


_stemmer = cast("_Stemmer", cast("Any", Stemmer).Stemmer("english", 0))  # 0: no cache, because `stem` has one


class RememberedTerms(dict[str, str]):
    """A cache of terms by word. Look-ups are cheaper than in an `lru_cache`, which reorders its entries each time."""

    def __missing__(self, word: str) -> str:
        term = _stemmed(word)
        if len(word) <= MAX_TERM_CHARACTERS:  # a whole text may be a single word
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
"""Returns the term of one word without punctuation; empty for a stop word."""


def terms_of(text: str) -> list[str]:
    """Return the terms of a text in order: its words, and each identifier (`E_4471`, `os.path`) also as a whole.

    An identifier may be part of a longer one: `os.set_path` contains `set_path`, and `v2.10.5` contains `2.10.5`.
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

    A text may spell the query's identifiers in other ways: `ERR_7731` as `err7731`, `maxSize` as `max_size`. A text
    with an identifier as a whole contains all terms of the identifier. A version number is one term, which a text
    contains only as a whole: nearly every long text has the numbers 2, 10 and 5 somewhere, and 105 does not mean 10.5.
    """

    def __init__(self, query: str) -> None:
        counted: dict[str, None] = {}
        wholes: list[_Whole] = []
        # Each chunk only once: a query has room for 2,500 copies of one identifier, which would take 26 ms.
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
        """The terms to search for: the terms of the query, and other spellings of its identifiers."""
        self.shown = [*self.terms, *(part for each in wholes for part in each.parts)]
        """Terms of the words in a text that a snippet should show."""
        marks = frozenset(map(_mark, self._counted))
        self._plain = marks.difference(_mark(each.term) for each in wholes if each.parts)
        """Marks that count one by one."""
        self._wholes = [
            (frozenset(map(_mark, (each.term, *each.parts))), marks.intersection(map(_mark, each.contains)))
            for each in wholes
        ]
        """Marks that a text must have together, and the marks of the query that it then contains."""
        self._marks = self._plain.union(*(needed for needed, _ in self._wholes))
        self._ordered = sorted(self._marks)

    @property
    def least(self) -> float:
        """The smallest share above 0, which is that of a text with one of the terms."""
        return 1 / max(1, len(self._counted))

    def share(self, marks: bytes, others: bytes = b"") -> float:
        """Return the share of the query's terms that a text contains, 0..1. `marks`: those of the text (`marks_of`).

        `others`: marks of further texts that belong to this text, in any order.
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
        """Return the marks of the query that are among `marks`, which must be sorted."""
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
    """Return the marks of a text: the sorted hashes of its distinct terms, MARK bytes each. They tell whether the text
    contains a term. If two terms have the same hash, it occurs twice."""
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
    """Yield the terms of the identifiers in a longer one: `os.set_path` contains `set_path`, `tool@v2.10.5` contains
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
    """Return the term of the letters before a version number; empty if they are only a `v`."""
    return "" if letters in "vV" else stem(letters)


class _Whole(NamedTuple):
    """A spelling of a query's identifier as one whole term."""

    term: str
    contains: Sequence[str]
    """Terms of the query that count as contained in a text that has `term` and all `parts`."""
    parts: Sequence[str] = ()
    """Terms that the text must have as well."""


def _asked(chunk: str) -> tuple[list[str], list[_Whole]]:
    """Return the terms of a query's identifier that count, and the spellings of the identifier as a whole."""
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
    """Return the term of a whole identifier. It is not stemmed, because `parse_header` is not `parse_headers`."""
    folded = _folded("".join(parts))
    return folded if folded.isascii() and folded not in STOP_WORDS else ""


def _composed(text: str) -> str:
    """Return the text with accents composed into their letters. A separate accent, as macOS writes it, would divide a
    word."""
    return unicodedata.normalize("NFC", _LONG_GAP.sub(r"\1", text))


def _mark(term: str) -> int:
    return crc32(term.encode())


def _folded(word: str) -> str:
    """Return the word in lower case, without accents and typographic variants."""
    plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", word)).casefold()
    return _PUNCTUATION.sub("", plain) if plain.isascii() else plain
