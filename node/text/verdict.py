"""The verdict on one window: how far its words speak for English, and what cld3 says where they do not decide.

What a sentence quotes, and the names of languages in it, are set apart: the words around them decide, so that English
may tell of other languages, and another language is not taken for English because it quotes some. Not here: what
is decided of a whole text (`english`).
"""

from functools import cache
from typing import Any, Protocol, cast

from node.text.lexicon import ENGLISH, lexicon
from node.text.quotes import set_apart
from node.text.windows import DENSE_SCRIPTS, LONGEST_BROKEN_WORD, clean, non_latin
from node.text.word_evidence import Evidence, weigh

FOREIGN_SCRIPT_SHARE = 0.20
"""Share of a window's letters that may be outside the Latin script: a quoted word, not a sentence."""

MOST_QUOTED = 2
"""What is quoted may be so many times as long as the words around it: a request to translate a sentence."""

LEAST_OF_QUOTING = -2.5
"""Mean points of a window's words below which more of it is foreign than may be quoted."""

LONG_WORD = 6
"""Letters; the mean English word that is counted has five."""

ENOUGH = 2 / 3
"""Share of English words at which a sample passes at a glance: all others being foreign, it would still pass."""

SURE = 2.0
"""A level this far above the threshold passes whatever cld3 would say: its worst verdict costs as much."""

ANCHOR = "this is the "
"""Put before the words given to cld3: it turns a detector of languages into a graded test of English."""

DETECTOR_MIN_BYTES, DETECTOR_MAX_BYTES = 0, 1000
"""cld3 ends the process on bounds it does not like; these must never come from input."""

_LETTERS_ONLY = str.maketrans(
    dict.fromkeys("'0123456789")
    | dict.fromkeys([*map(chr, range(0x20)), *'\x7f!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~“”‘’«»…–—'], " ")
)


class Detection(Protocol):
    """One answer of cld3; its `is_reliable` is not used, it is wrong on short text."""

    language: str
    probability: float


class Detector(Protocol):
    """The part of cld3 that is used. One instance serves all threads: a call keeps its state on the stack."""

    def FindLanguage(self, text: str) -> Detection: ...  # noqa: N802


LanguageVerdict = tuple[float, list[str], float]
"""What one window says before cld3 is asked: how far its words are above the threshold (below 0 it fails, from SURE on
it passes); the words that decide, lower-cased; how many words it holds besides that are surely of another language."""


def judged(window: str) -> LanguageVerdict:
    """The verdict on a cleaned window. Never raises."""
    others, letters = non_latin(window)
    if others > FOREIGN_SCRIPT_SHARE * letters:
        may_quote = others <= (1 + MOST_QUOTED) * (letters - others)
        return (_by_carrier(window, -SURE) if may_quote else None) or (-SURE, [], max(3.0, others / 2))
    evidence = weigh(window)
    margin = margin_of(evidence)
    if (margin < SURE or evidence.has_foreign) and evidence.level > LEAST_OF_QUOTING * len(evidence.words) ** 0.5:
        return _by_carrier(window, margin, evidence.words) or (margin, evidence.words, 0.0)
    return margin, evidence.words, 0.0


def is_foreign(sample: str) -> bool | None:
    """Whether a stretch of a text is so far from English that cld3 could not help it; None if it has no words.

    Its first word is left out: it may be cut in two.
    """
    others = 0
    if not sample.isascii():
        others, letters = non_latin(clean(sample))
        if others > FOREIGN_SCRIPT_SHARE * letters:
            return True
    if not others:
        share = _english_share(sample)
        if share is None or share >= ENOUGH:
            return None if share is None else False
    window = clean(sample)
    evidence = weigh(window[window.find(" ", 0, LONGEST_BROKEN_WORD) + 1 :])
    return margin_of(evidence) < -SURE if evidence.words else None


def _english_share(sample: str) -> float | None:
    """The share of English words after the first, all that is no letter being a space; None without words."""
    words = [word for word in sample.lower().translate(_LETTERS_ONLY).split()[1:] if len(word) > 1]
    return [*map(lexicon().get, words)].count(ENGLISH) / len(words) if words else None


def size_of(words: list[str]) -> float:
    """How much words count: by their number, or as many of LONG_WORD letters as their letters would make.

    By words alone a foreign quarter of a text looks smaller than it is: the words of many languages are longer.
    """
    return max(len(words), sum(map(len, words)) / LONG_WORD)


def margin_of(evidence: Evidence) -> float:
    """How far the evidence lies above what is asked of so many words; few words are trusted more readily."""
    count = len(evidence.words)
    if count == 0:
        return SURE
    if count <= 2:
        threshold = 0.0 if evidence.has_foreign else -2.7
    elif count <= 5:
        threshold = -1.5
    else:
        threshold = -0.5 if count <= 14 else 0.0
    return evidence.level - threshold


def second_opinion(words: list[str]) -> float:
    """What cld3 adds to the evidence of these words: nothing, or a loss of up to SURE."""
    detection = detector().FindLanguage(ANCHOR + " ".join(words))
    if detection.language == "en":
        return 0.0 if detection.probability >= 0.90 else -1.0
    return -SURE if detection.probability >= 0.70 else -1.0


@cache
def detector() -> Detector:
    """cld3, loaded by the first call."""
    import gcld3  # noqa: PLC0415 - who only wants readable text needs no detector

    untyped = cast("Any", gcld3)
    return untyped.NNetLanguageIdentifier(DETECTOR_MIN_BYTES, DETECTOR_MAX_BYTES)


def _by_carrier(window: str, margin: float, words: list[str] | None = None) -> LanguageVerdict | None:
    """The verdict by what carries the window's quotations, if there are any and it is plain in either way."""
    apart = set_apart(window, words)
    if apart is None:
        return None
    carrier, quoted = apart
    others, letters = non_latin(carrier)
    if others > FOREIGN_SCRIPT_SHARE * letters:
        return None
    evidence = weigh(carrier)
    words = evidence.words
    if words and evidence.level >= SURE:
        size = (sum(map(str.isalpha, quoted)) + sum(letter >= DENSE_SCRIPTS for letter in quoted)) / LONG_WORD
        if size <= MOST_QUOTED * size_of(words):
            return SURE, words, size if margin < 0 else 0.0
    elif evidence.has_foreign and margin_of(evidence) < -SURE:
        return min(margin, margin_of(evidence)), words, 0.0
    return None
