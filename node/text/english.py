"""The English gate for one text: decides, within microseconds, whether the node may take it.

Words decide first (`words`), character scripts before them (`windows`); cld3 is asked only about windows
the words leave undecided, because alone it rejects half of all short English. What is prose in a JSON
payload is `prose`'s business. Everything here is synchronous, CPU only, and never raises on any `str`.
"""

from functools import cache
from typing import Any, Protocol, cast

import gcld3

from node.tally import VERDICTS
from node.text.lexicon import lexicon
from node.text.windows import WINDOWS, non_latin, windows
from node.text.words import Evidence, weigh

FOREIGN_SCRIPT_SHARE = 0.20
"""Share of a window's letters that may be outside the Latin script: a quoted word, not a sentence."""

FOREIGN_WINDOWS_SHARE = 0.20
"""Share of a text's words in failing windows at which the text fails: a paragraph, not a quotation."""

LONG_WORD = 6
"""Letters; the mean English word that is counted has five."""

SURE = 2.0
"""A level this far above the threshold passes whatever cld3 would say: its worst verdict costs as much."""

ANCHOR = "this is the "
"""Put before the words given to cld3: it turns a detector of languages into a graded test of English."""

DETECTOR_MIN_BYTES, DETECTOR_MAX_BYTES = 0, 1000
"""cld3 ends the process on bounds it does not like; these must never come from input."""


class Detection(Protocol):
    """One answer of cld3; its `is_reliable` is not used, it is wrong on short text."""

    language: str
    probability: float


class Detector(Protocol):
    """The part of cld3 that is used. One instance serves all threads: a call keeps its state on the stack."""

    def FindLanguage(self, text: str) -> Detection: ...  # noqa: N802


def preload() -> None:
    """Load the lexicon and cld3. For the start of a process: before its first request and `gc.freeze`."""
    lexicon()
    _detector()


def is_english(text: str, most_windows: int = WINDOWS) -> bool:
    """Whether one field is English, or has no words that could be anything else (`42`, an id, an emoji).

    Reads the whole text up to 1,920 characters and a sample of a longer one (`most_windows` windows of 160).
    """
    parts = windows(text, most_windows)
    passes = _window_passes(parts[0]) if len(parts) == 1 else _windows_pass(parts)
    VERDICTS[passes] += 1
    return passes


def _window_passes(window: str) -> bool:
    foreign, letters = non_latin(window)
    if foreign > FOREIGN_SCRIPT_SHARE * letters:
        return False
    evidence = weigh(window)
    margin = _margin(evidence)
    return margin >= SURE or (margin >= 0 and margin + _second_opinion(evidence.words) >= 0)


def _windows_pass(parts: list[str]) -> bool:
    """The verdict on several windows, asking cld3 only until no answer could change it."""
    failing = total = 0.0
    undecided: list[tuple[float, list[str]]] = []
    for window in parts:
        foreign, letters = non_latin(window)
        if foreign > FOREIGN_SCRIPT_SHARE * letters:
            count = max(3.0, foreign / 2)
            failing += count
        else:
            evidence = weigh(window)
            count = _size(evidence.words)
            margin = _margin(evidence)
            if margin < 0:
                failing += count
            elif margin < SURE:
                undecided.append((margin, evidence.words))
        total += count
    limit = FOREIGN_WINDOWS_SHARE * total
    open_ = sum(_size(words) for _, words in undecided)
    for margin, words in undecided:
        if failing >= limit or failing + open_ < limit:
            break
        open_ -= _size(words)
        if margin + _second_opinion(words) < 0:
            failing += _size(words)
    return failing < limit or total == 0


def _size(words: list[str]) -> float:
    """How much a window counts: its words, or as many words of LONG_WORD letters as its letters would make.

    By words alone a foreign quarter of a text looks smaller than it is: the words of many languages are longer.
    """
    return max(len(words), sum(map(len, words)) / LONG_WORD)


def _margin(evidence: Evidence) -> float:
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


def _second_opinion(words: list[str]) -> float:
    """What cld3 adds to the evidence of these words: nothing, or a loss of up to SURE."""
    detection = _detector().FindLanguage(ANCHOR + " ".join(words))
    if detection.language == "en":
        return 0.0 if detection.probability >= 0.90 else -1.0
    return -SURE if detection.probability >= 0.70 else -1.0


@cache
def _detector() -> Detector:
    untyped = cast("Any", gcld3)
    return untyped.NNetLanguageIdentifier(DETECTOR_MIN_BYTES, DETECTOR_MAX_BYTES)
