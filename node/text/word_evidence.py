"""Word evidence: how strongly the words of a window indicate English.

This module defines what counts as a word, how many points a word is worth, and how points add up. `verdict` draws the
conclusion. All numbers were fitted together on a labelled set, so none should be changed alone.
"""

import re
import unicodedata
from collections import Counter
from itertools import chain, pairwise
from typing import Any, NamedTuple

from node.text.lexicon import ENGLISH, FOREIGN, MIN_PART_LETTERS, foreign_parts, lexicon
from node.text.word_forms import is_formed

UNKNOWN, UNKNOWN_ACCENTED = -3.0, float(FOREIGN)
"""Points of an unknown (not in the lexicon) lower-case word: without accents, and with accents, as a foreign word."""
UNKNOWN_NAME, UNKNOWN_ACCENTED_NAME = -2.0, -2.5
"""Points of an unknown capitalised word, which is more likely a name: without accents, and with accents."""
UNKNOWN_FORMED = -1.0
"""Points of an unknown lower-case word that is formed like an English word (`frictionless`)."""
UNKNOWN_IN_CODE = -1.0
"""Points of an unknown lower-case word in source code, where it is more likely an identifier."""

MAX_OCCURRENCES = 2
"""Counted occurrences of an unknown lower-case word in a window. A word that recurs more often is a name or a unit."""

CODE_SIGNS_SHARE = 0.06
"""A window counts as source code if more than this share of its characters, not counting spaces, are signs of code."""

MIN_CODE_TOKENS = 9
"""Minimum number of tokens in a window that counts as code by its signs. Fewer may be a phrase with a placeholder."""

PRIOR = 0.5
"""Added to every level, because most texts that a node receives are English."""

MAX_ACRONYM_LETTERS = 5
MAX_SHORT_ACRONYM_LETTERS = 3
MAX_SHORT_ACRONYMS = 3
"""Maximum number of short acronyms. More of them may be a sentence in capital letters."""
ACRONYMS_RATIO = 2
"""Maximum number of acronyms that are also foreign words (`MIT`, `USA`) for each English word."""

PARTICLES_RATIO = 2
"""Minimum number of English words for each particle of a name (`Otto von Bismarck`) that is also a foreign word. Names
with fewer words around them may be the title of a foreign text."""

MIN_FOREIGN_PARTS = 2
"""Number of foreign words as parts of identifiers that make a window without words foreign, if fewer are English."""

MAX_TOKENS = 8_192
"""Maximum number of cached tokens, which take 5 MB at most. When there are more, the cache is cleared."""

MAX_TOKEN_CHARACTERS = 24
"""Greatest length of a token that is cached. A longer one could contain many words (`in-of-to-…`)."""

MAX_READ_ALONE = 2
"""If at most this many tokens of a window, and at most half of them, are not cached, each of these is read alone: it is
likely a number, or a word that did not occur before."""

MAX_LEARNT = 8
"""Maximum number of new tokens of an English window that are cached. The limit keeps unusual texts cheap."""

ENGLISH_TOKENS: dict[str, tuple[str, ...]] = {}
"""A cache of tokens with only English words, and these words: `noon` for `Noon.`, none for `a`. Most windows have no
other tokens, and a look-up is faster than reading a token again."""

_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉"
"""Raised and lowered digits (m², x₁), which patterns for letters match too. Within a word they hide nothing."""
_OUTER = _RAISED + "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~“”„‘’‚«»‹›…–—·•¡¿§¶†‡°´¨¸©®™€£¥、。「」【】（）：，！？"
_STOPS = ".,;:!?"
_LETTERS = r"(?:[^\W\d_]|['\u0300-\u036f])+"
_JOINT = re.compile(r"[-–—…/|]|\.{2,}")
_CHAIN = re.compile(rf"{_LETTERS}(?:(?:{_JOINT.pattern}){_LETTERS})*")
_PART_JOINTS = bytes.maketrans(b"_.,:;-=|()[]{}<>+*", b" " * 18)
_NO_NAME = re.compile(r"[\d/@]")
_CAPITAL = r"[A-ZÀ-ÞĀ-Ž]"
_TAGS = frozenset(("li", "nav", "ul"))
"""HTML elements whose names are also foreign words."""
_PARTICLE = re.compile(rf"(?<!\w){_CAPITAL}[^\W\d_]*[ -]([^\W\d_]{{1,3}})[ -](?={_CAPITAL})")
"""A short word between two capitalised words. (Ā to Ž are alternately capital and small letters.)"""
_MARKUP = re.compile(r"%\(\w{1,40}\)[a-z]|&\w{1,10};|\\[nrt]")
_CODE_SIGNS = rb"{}[]<>=;_|\$#*+()"
_SEQUENCE = re.compile("[ACDEFGHIKLMNPQRSTVWY]{15,}|(?i:[ACGTUN]{10,})")
"""Residues of a protein, or bases of DNA or RNA. Hardly any word is so long without O and U, or made of these bases."""
_RUN = re.compile(r"(?i)(.)\1{3,}")
"""One letter repeated (`xxxx`), which is padding and belongs to no language."""
_MARKS = re.compile(r"[\u0300-\u036f]+")
_GREEK = re.compile(r"[\u00b5\u0370-\u03ff]")  # including µ, the sign for micro-
_DUMP = re.compile(r"(?<!\S)[0-9a-fA-F]{2}(?:\s+[0-9a-fA-F]{2}(?!\S)){3,}")
"""Bytes in hexadecimal, some of which look like words (`de`, `da`, `fe`)."""
_CONTRACTIONS = frozenset(("s", "t", "re", "ll", "d", "ve", "m"))

# English phrases made of foreign words. Neither word of such a pair is counted.
_PHRASE_LIST = """
    et al, per se, ad hoc, ad infinitum, ad nauseam, alma mater, bona fide, vice versa, pro rata, pro quo, quid pro,
    status quo, de facto, de jure, ipso facto, prima facie, in situ, in vitro, in vivo, inter alia, per capita,
    post mortem, modus operandi, sine qua, non grata, déjà vu, deja vu, en route, en masse, au pair, carte blanche,
    faux pas, fait accompli, laissez faire, raison d'être, vis vis, mardi gras, al dente, von neumann, da vinci,
    los angeles, las vegas, el paso, el salvador, são paulo, sao paulo, rio de, de janeiro, buenos aires, costa rica,
    puerto rico, hong kong, kuala lumpur, abu dhabi, tel aviv, sri lanka
"""
_PHRASES = frozenset((first, second) for first, second in (pair.split() for pair in _PHRASE_LIST.split(",")))
_PHRASE_ENDS = frozenset(second for _, second in _PHRASES)


class Evidence(NamedTuple):
    """The evidence of a window's words. `level` is roughly their mean points in standard errors; 0 is undecided."""

    words: list[str]
    """The counted words, in lower case unless all are English."""
    level: float
    has_foreign: bool
    """Whether one of the words is a known word of another language."""


def weigh(window: str) -> Evidence:
    """Return the evidence of a cleaned window. Never raises. Takes time linear in the window's length."""
    tokens = window.split()
    parts: list[Any] = [*map(ENGLISH_TOKENS.get, tokens)]
    unknown = parts.count(None)
    if unknown > MAX_READ_ALONE or 2 * unknown > len(tokens):
        evidence = _read(window)
        if evidence == _all_english(evidence.words):
            for token in [token for token, part in zip(tokens, parts, strict=True) if part is None][:MAX_LEARNT]:
                _learn(token)
        return evidence
    index = -1
    for _ in range(unknown):
        index = parts.index(None, index + 1)
        parts[index] = _english_words(tokens[index])
        if parts[index] is None:
            return _read(window)
    words: list[str] = [*chain.from_iterable(parts)]
    return _all_english(words) if words else _read(window)


def is_plain(token: str) -> bool:
    """Return whether a token is a single English word, which is then cached, or a number. This is a quick test."""
    return _learn(token) is not None or token.rstrip(_STOPS).isdecimal()


def _read(window: str) -> Evidence:
    """Return the evidence of a window by reading it in full."""
    if "%(" in window or "&" in window or "\\" in window:
        window = _MARKUP.sub(" ", window)
    if not window.isascii():
        window = unicodedata.normalize("NFC", window).replace("’", "'").replace("ʼ", "'")
    known = lexicon()
    tokens = window.split()
    links = 0
    # Most tokens are known words. The loop replaces each of the remaining tokens by the words that it contains.
    words = tokens.copy()
    points: list[Any] = [*map(known.get, tokens)]  # None for the remaining tokens
    index = gone = 0  # gone: the number of tokens up to `index` minus that of their words
    for _ in range(points.count(None)):
        index = points.index(None, index)
        token = tokens[index + gone]
        word = token[:-1] if token[-1] in _STOPS else token
        if word.isalpha():  # the first or last word of a clause, or an unknown word
            lower = word.lower()
            if len(word) > 1 and (point := known.get(word) or known.get(lower) or _unknown(word, lower, known)):
                words[index], points[index] = word if point == FOREIGN else lower, point
                index += 1
            else:
                del words[index], points[index]
                gone += 1
            continue
        parts: list[str] = []
        values: list[float] = []
        if "://" in token or "@" in token:
            links += len(token) > 1
        elif not word.isdecimal():
            parts, values = _counted_words(token, known)
        words[index : index + 1] = parts
        points[index : index + 1] = values
        index += len(parts)
        gone += 1 - len(parts)
    if words and points.count(ENGLISH) == len(words):
        return _all_english(words)
    if gone > len(words) > 0 and _DUMP.search(window):
        return _read(_DUMP.sub(" ", window))
    words, points = _without_names(words, points, window)
    if not words:
        return _weigh_identifiers(tokens, known)
    total = sum(points)
    if (unknown := points.count(UNKNOWN)) and (2 * len(words) < len(tokens) - links or _has_signs_of_code(tokens)):
        total += unknown * (UNKNOWN_IN_CODE - UNKNOWN)
    return Evidence(words, total / len(words) ** 0.5 + PRIOR, FOREIGN in points)


def _has_signs_of_code(tokens: list[str]) -> bool:
    """Return whether brackets and operators show that a window is source code. Few tokens of code look like words, and
    few of these are in a dictionary."""
    if len(tokens) < MIN_CODE_TOKENS:
        return False
    characters = "".join(tokens)
    in_ascii = characters.encode("ascii", "ignore")
    return len(in_ascii) - len(in_ascii.translate(None, _CODE_SIGNS)) > CODE_SIGNS_SHARE * len(characters)


def _all_english(words: list[str]) -> Evidence:
    return Evidence(words, ENGLISH * len(words) ** 0.5 + PRIOR, False)


def _english_words(token: str) -> tuple[str, ...] | None:
    """Return the words of a token (none for a number and the like), or None if some of them are not certainly English.

    Caches tokens with words, and single characters without; there are too many numbers to cache.
    """
    if token.rstrip(_STOPS).isdecimal():
        return ()
    if word := _learn(token):
        return (word,)
    evidence = _read(token)
    words = tuple(evidence.words)
    if words and evidence != _all_english(evidence.words):
        return None
    if words or len(token) == 1:
        _remember(token, words)
    return words


def _learn(token: str) -> str | None:
    """If a token is an English ASCII word, apart from capitals and a final stop, cache the token and return the word.
    Otherwise return None."""
    word = token[:-1] if token[-1] in _STOPS else token
    if not (word.isalpha() and word.isascii()):
        return None
    known, lower = lexicon(), word.lower()
    if (known.get(word) or known.get(lower)) != ENGLISH:
        return None
    word = token if token in known else lower
    _remember(token, (word,))
    return word


def _remember(token: str, words: tuple[str, ...]) -> None:
    if len(ENGLISH_TOKENS) >= MAX_TOKENS:
        ENGLISH_TOKENS.clear()
    if len(token) <= MAX_TOKEN_CHARACTERS:
        ENGLISH_TOKENS[token] = words


def _counted_words(token: str, known: dict[str, int]) -> tuple[list[str], list[float]]:
    """Return the words of a token that count, in lower case unless they are foreign, and the points of each word."""
    words: list[str] = []
    points: list[float] = []
    if len(token) > 1:
        is_option = token.startswith("--")  # an option of a command; a single dash may also begin an item of a list
        for word in _words_of(token):
            lower = word.lower()
            point = _points(word, lower, known)
            if point and not (is_option and word not in known and lower not in known):
                words.append(word if point == FOREIGN else lower)
                points.append(point)
    return words, points


def _words_of(token: str) -> list[str]:
    """Return the words of a token that is not in the lexicon itself; none if a part of the token is not a word."""
    if "()" in token:
        return []  # a function call
    token = token.strip(_OUTER)
    if token.isalpha():
        return [token] if len(token) > 1 else []
    if not _CHAIN.fullmatch(token):
        return []
    return [word for part in _JOINT.split(token) if len(word := part.strip("'")) > 1]


def _points(word: str, lower: str, known: dict[str, int]) -> float:
    """Return the points of a word; 0 if it is not counted."""
    point = known.get(word) or known.get(lower)
    if point:
        return point
    if "'" in word:
        stem, _, ending = lower.rpartition("'")
        if ending in _CONTRACTIONS and ENGLISH in (known.get(stem), known.get(word[: len(stem)])):
            return ENGLISH
    return _unknown(word, lower, known)


def _unknown(word: str, lower: str, known: dict[str, int]) -> float:
    """Return the points of a word that is not in the lexicon; 0 if it is not counted."""
    if _RUN.fullmatch(word):
        return 0
    if word == lower:
        unknown, unknown_accented = UNKNOWN, UNKNOWN_ACCENTED
    elif word.isupper() or word[1:].islower():
        unknown, unknown_accented = UNKNOWN_NAME, UNKNOWN_ACCENTED_NAME
    else:
        return 0  # camelCase
    if word.isascii():
        if word == lower and is_formed(word, known):
            return UNKNOWN_FORMED
        is_acronym = len(word) <= MAX_ACRONYM_LETTERS and word.isupper()
        return 0 if is_acronym or _SEQUENCE.fullmatch(word) else unknown
    if len(word) <= 3 and _GREEK.search(word):
        return 0  # a symbol: Δt, μm
    plain = _MARKS.sub("", unicodedata.normalize("NFD", word))
    if ENGLISH in (known.get(plain), known.get(plain.lower())):
        return 0  # résumé, naïve
    return unknown_accented


def _without_names(words: list[str], points: list[float], window: str) -> tuple[list[str], list[float]]:
    """Return the words, in lower case, and their points without acronyms, particles, set phrases and repetitions."""
    if FOREIGN in points:
        words, points = _without_particles(*_without_acronyms(words, points, window), window)
        if "<" in window:
            words, points = _without_tags(words, points, window)
    words = [*map(str.lower, words)]
    if points.count(UNKNOWN) > MAX_OCCURRENCES:
        words, points = _without_repetitions(words, points)
    return (words, points) if _PHRASE_ENDS.isdisjoint(words) else _without_phrases(words, points)


def _without_acronyms(words: list[str], points: list[float], window: str) -> tuple[list[str], list[float]]:
    """Return the words and points without acronyms that are also foreign words. These are removed if there is enough
    English around them and not all letters of the window are capitals, or if they are few and short and all other words
    are English. Otherwise they count like other words."""
    acronyms = [
        index
        for index, word in enumerate(words)
        if points[index] == FOREIGN and len(word) <= MAX_ACRONYM_LETTERS and word.isupper() and word.isascii()
    ]
    if not acronyms:
        return words, points
    english = points.count(ENGLISH)
    are_few = len(acronyms) <= MAX_SHORT_ACRONYMS
    are_short = are_few and all(len(words[index]) <= MAX_SHORT_ACRONYM_LETTERS for index in acronyms)
    are_named = not window.isupper() and ACRONYMS_RATIO * english >= len(acronyms)
    if not are_named and not (are_short and english + len(acronyms) == len(words)):
        return words, points
    return _without({*acronyms}, words, points)


def _without_particles(words: list[str], points: list[float], window: str) -> tuple[list[str], list[float]]:
    """Return the words and points without foreign words inside names, if there is enough English around them and if
    capitals tell names from other words."""
    english = points.count(ENGLISH)
    if english < PARTICLES_RATIO or not (inside := _PARTICLE.findall(window)) or window.isupper() or window.istitle():
        return words, points
    particles = {index for index, word in enumerate(words) if points[index] == FOREIGN and word in inside}
    return _without(particles, words, points) if english >= PARTICLES_RATIO * len(particles) else (words, points)


def _without_tags(words: list[str], points: list[float], window: str) -> tuple[list[str], list[float]]:
    """Return the words and points without the names of HTML elements that occur as tags in the window."""
    tags = {word for word in _TAGS.intersection(words) if f"<{word}" in window or f"</{word}>" in window}
    return _without({index for index, word in enumerate(words) if word in tags}, words, points)


def _without_repetitions(words: list[str], points: list[float]) -> tuple[list[str], list[float]]:
    """Return the words and points without occurrences of an unknown word beyond MAX_OCCURRENCES."""
    occurrences: Counter[str] = Counter()
    dropped: set[int] = set()
    for index, word in enumerate(words):
        if points[index] == UNKNOWN:
            occurrences[word] += 1
            if occurrences[word] > MAX_OCCURRENCES:
                dropped.add(index)
    return _without(dropped, words, points)


def _without_phrases(words: list[str], points: list[float]) -> tuple[list[str], list[float]]:
    """Return the words and points without phrases, which may overlap (`quid pro quo`)."""
    if _PHRASES.isdisjoint(pairwise(words)):
        return words, points
    dropped: set[int] = set()
    for index, pair in enumerate(pairwise(words)):
        if pair in _PHRASES:
            dropped |= {index, index + 1}
    return _without(dropped, words, points)


def _without(dropped: set[int], words: list[str], points: list[float]) -> tuple[list[str], list[float]]:
    if not dropped:
        return words, points
    kept = [index for index in range(len(words)) if index not in dropped]
    return [words[index] for index in kept], [points[index] for index in kept]


def _weigh_identifiers(tokens: list[str], known: dict[str, int]) -> Evidence:
    """Return the evidence of a window without words. Foreign words also count as parts of identifiers and in lists
    without spaces (`hola_mundo`, `ich,auch,nicht`), but not in hashes, paths, links and addresses."""
    names = [token for token in tokens if len(token) > MIN_PART_LETTERS and not _NO_NAME.search(token)]
    if names:
        parts = " ".join(names).lower().encode().translate(_PART_JOINTS).decode().split()
        if not foreign_parts().isdisjoint(parts):
            parts = [part for part in parts if len(part) >= MIN_PART_LETTERS]
            found = [*map(known.get, parts)]
            foreign = found.count(FOREIGN)
            if foreign >= MIN_FOREIGN_PARTS and foreign > found.count(ENGLISH):
                return Evidence(parts, FOREIGN, True)
    return Evidence([], 0, False)
