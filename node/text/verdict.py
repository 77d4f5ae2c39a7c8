"""The verdict on one window: how strongly its words indicate English, and cld3's opinion if they are not decisive.

Quotations and names of languages are separated first, and the words around them decide: an English sentence may quote
another language, and a foreign sentence does not become English by quoting English. `english` gives the verdict on a
whole text.
"""

from functools import cache
from typing import Any, Protocol, cast

from node.text.lexicon import ENGLISH, lexicon
from node.text.quotes import opens_few, set_apart, without_quoted_lines
from node.text.windows import DENSE_SCRIPTS, MAX_BROKEN_WORD_CHARACTERS, WINDOW_CHARACTERS, clean, non_latin, windows
from node.text.word_evidence import Evidence, weigh

FOREIGN_SCRIPT_SHARE = 0.20
"""Share of a window's letters that may be outside the Latin script: enough for a quoted word, not for a sentence."""

MAX_QUOTED_RATIO = 4
"""Maximum ratio of quotations to the words around them. A request to translate a sentence quotes that much."""

MAX_QUOTED_LETTERS = WINDOW_CHARACTERS * MAX_QUOTED_RATIO // (1 + MAX_QUOTED_RATIO)
"""Letters that a text of several windows may quote: as many as a text of one window may. So a request to translate a
sentence does not fail because it says more about that sentence."""

MIN_MEAN_OF_QUOTING = -2.5
"""If the mean points of a window's words are not above this, too much of the window is foreign to be a quotation."""

WORD_LETTERS = 6
"""Number of letters that count as one word. The counted English words have five letters on average."""

ENGLISH_SHARE = 2 / 3
"""Share of English words at which a sample passes without further tests, even if all its other words are foreign."""

SURE = 2.0
"""Margin above the threshold at which a window passes without cld3. The worst opinion of cld3 subtracts as much."""

ANCHOR = "this is the "
"""Text put before the words that cld3 is asked about. Its probability then tells how well the words fit English."""

DETECTOR_MIN_BYTES, DETECTOR_MAX_BYTES = 0, 1000
"""Bounds for cld3. They must never depend on input, because cld3 aborts the process for some bounds."""

_LETTERS_ONLY = str.maketrans(
    dict.fromkeys("'0123456789")
    | dict.fromkeys([*map(chr, range(0x20)), *'\x7f!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~“”‘’«»…–—'], " ")
)


class Detection(Protocol):
    """An answer of cld3. Its field `is_reliable` is not used, because it is wrong for short texts."""

    language: str
    probability: float


class Detector(Protocol):
    """The part of cld3 that is used. All threads share one instance, because a call keeps its state on the stack."""

    def FindLanguage(self, text: str) -> Detection: ...  # noqa: N802


LanguageVerdict = tuple[float, list[str], float]
"""The verdict on a window without cld3: the margin of its words above the threshold (below 0 the window fails, from
SURE on it passes); the words that decide, in lower case unless all are English; and about how many other words of the
window are certainly in another language."""


def judge_window(window: str) -> LanguageVerdict:
    """Return the verdict on a cleaned window. Never raises."""
    others, letters = non_latin(window)
    if others > FOREIGN_SCRIPT_SHARE * letters:
        may_quote = others <= (1 + MAX_QUOTED_RATIO) * (letters - others)
        return (_by_carrier(window, -SURE) if may_quote else None) or (-SURE, [], max(3.0, others / 2))
    evidence = weigh(window)
    margin = margin_of(evidence)
    if (margin < SURE or evidence.has_foreign) and evidence.level > MIN_MEAN_OF_QUOTING * len(evidence.words) ** 0.5:
        return _by_carrier(window, margin, evidence.words) or (margin, evidence.words, 0.0)
    return margin, evidence.words, 0.0


def is_clear_around_quotations(text: str) -> bool:
    """Return whether a failing text is clearly English except for quotations of at most MAX_QUOTED_LETTERS in total.

    The verdicts on its windows cannot tell, because a window may end within a quotation, and a short text has few words
    around a quotation. The text around the quotations must not have any word of another language. Otherwise a foreign
    text could pass because it is divided differently.
    """
    text, lines = without_quoted_lines(text)
    text = clean(text)
    apart = set_apart(text, words=[]) if opens_few(text) else None  # words=[]: names of languages are kept
    if not lines and apart is None:
        return False
    carrier, quoted = apart or (text, "")
    letters = _letters_of(lines) + _letters_of(quoted)
    if letters > MAX_QUOTED_LETTERS:
        return False
    size = 0.0
    for window in windows(carrier):
        others, all_letters = non_latin(window)
        evidence = weigh(window)
        if others > FOREIGN_SCRIPT_SHARE * all_letters or evidence.has_foreign or margin_of(evidence) < SURE:
            return False
        size += size_of(evidence.words)
    return letters / WORD_LETTERS <= MAX_QUOTED_RATIO * size


def is_foreign(sample: str) -> bool | None:
    """Return whether a sample is so far from English that cld3 could not change the verdict; None if it has no words.

    The first word is ignored, because the sample may begin within a word.
    """
    others = 0
    if not sample.isascii():
        others, letters = non_latin(clean(sample))
        if others > FOREIGN_SCRIPT_SHARE * letters:
            return True
    if not others:
        share = _english_share(sample)
        if share is None or share >= ENGLISH_SHARE:
            return None if share is None else False
    window = clean(sample)
    evidence = weigh(window[window.find(" ", 0, MAX_BROKEN_WORD_CHARACTERS) + 1 :])
    return margin_of(evidence) < -SURE if evidence.words else None


def _english_share(sample: str) -> float | None:
    """Return the share of English words in a sample, ignoring the first word; None if there are no others."""
    words = [word for word in sample.lower().translate(_LETTERS_ONLY).split()[1:] if len(word) > 1]
    return [*map(lexicon().get, words)].count(ENGLISH) / len(words) if words else None


def size_of(words: list[str]) -> float:
    """Return the size of words: their number, or the number of words of WORD_LETTERS letters they make, if greater.

    Words of many languages are longer than English words, so their number alone would count them too little.
    """
    return max(len(words), sum(map(len, words)) / WORD_LETTERS)


def margin_of(evidence: Evidence) -> float:
    """Return how far the evidence is above the threshold. The threshold is lower for few words."""
    count = len(evidence.words)
    if count > 5:
        threshold = -0.5 if count <= 14 else 0.0
    elif count > 2:
        threshold = -0.5 if evidence.has_foreign else -1.5
    elif count:
        threshold = 0.0 if evidence.has_foreign else -2.7
    else:
        return SURE
    return evidence.level - threshold


@cache
def detector() -> Detector:
    """Return cld3. The first call loads it."""
    import gcld3  # noqa: PLC0415 - a process that does not judge texts needs no detector

    untyped = cast("Any", gcld3)
    return untyped.NNetLanguageIdentifier(DETECTOR_MIN_BYTES, DETECTOR_MAX_BYTES)


def second_opinion(words: list[str]) -> float:
    """Return what cld3's opinion adds to the margin of these words: between -SURE and 0."""
    detection = detector().FindLanguage(ANCHOR + " ".join(words))
    if detection.language == "en":
        return 0.0 if detection.probability >= 0.90 else -1.0
    return -SURE if detection.probability >= 0.70 else -1.0


def _by_carrier(window: str, margin: float, words: list[str] | None = None) -> LanguageVerdict | None:
    """Return the verdict by the words around a window's quotations and names of languages.

    Returns None if the window has neither, or if the words around them are not clear.
    """
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
        size = _letters_of(quoted) / WORD_LETTERS
        if size <= MAX_QUOTED_RATIO * size_of(words):
            return SURE, words, size if margin < 0 else 0.0
    elif evidence.has_foreign and margin_of(evidence) < -SURE:
        return min(margin, margin_of(evidence)), words, 0.0
    return None


def _letters_of(quoted: str) -> int:
    return sum(map(str.isalpha, quoted)) + sum(letter >= DENSE_SCRIPTS for letter in quoted)
