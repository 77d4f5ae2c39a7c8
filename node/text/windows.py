"""Windows, the short parts in which a text is judged: cleans a text, divides it, and counts letters of other scripts.

Words are in `word_evidence`, verdicts in `verdict` and `english`.
"""

import re

from node.text.characters import BIDI, INVISIBLE, JOINING, RARELY_INVISIBLE

WINDOW_CHARACTERS = 160
"""Characters of a window: enough words to recognise a language, and few enough that one foreign sentence fills it."""

MAX_BROKEN_WORD_CHARACTERS = 40
"""If a sample has no space within this many characters (Chinese, base64), it is not taken to begin with a cut word."""

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]+")
_LONG_URL = re.compile(f"://[!-~]{{{WINDOW_CHARACTERS // 2},}}")
_INVISIBLE = re.compile(f"[{INVISIBLE}{BIDI}{JOINING}{RARELY_INVISIBLE}]+")

# Letters of any script but Latin: not the Latin blocks up to U+02FF and their extensions, and not the
# letterlike symbols and numerals of U+2000..2BFF.
_NON_LATIN = re.compile(
    "[^\\W\\d_A-Za-z\u00aa-\u02ff\u1d00-\u1dbf\u1e00-\u1eff\u2000-\u2bff\u2c60-\u2c7f\ua720-\ua7ff\uab30-\uab6f\ufb00-\ufb06]"
)
_GREEK = frozenset(map(chr, range(0x370, 0x400)))
_GREEK_SYMBOL = re.compile(
    r"[ΔΣλμπ](?=[A-Za-z])|(?<![^\W\d_])[\u0370-\u03ff](?![^\W\d_²³¹⁰-₉])"  # but for raised and lowered digits: σ², λ₁
)
DENSE_SCRIPTS = "\u2e80"
"""From this character on a letter is a syllable or a word (CJK, Hangul), and counts twice."""


def clean(text: str) -> str:
    """The text without terminal codes and invisible characters; each run of control characters and lone surrogates
    becomes a space. So no word that a reader sees can be hidden from the gate."""
    if text.isprintable():  # it may still have fillers and variation selectors, which count as printable
        return text if is_latin_1(text) else _INVISIBLE.sub("", text)
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    text = _CONTROL.sub(" ", text)
    return text if text.isascii() else _INVISIBLE.sub("", text)


def windows(text: str) -> list[str]:
    """The windows of a text, cleaned and, if possible, divided at spaces."""
    text = clean(text)
    if "://" in text:  # a URL has no words, but its second half would have some if it were in a window by itself
        text = _LONG_URL.sub("://", text)
    count = -(-len(text) // WINDOW_CHARACTERS)
    cuts = [0]
    for index in range(1, count):
        target = index * len(text) // count
        space = text.rfind(" ", cuts[-1] + 1, target)
        cuts.append(target if space < 0 else space)
    return [text[start:end] for start, end in zip(cuts, [*cuts[1:], len(text)], strict=True)]


def non_latin(window: str) -> tuple[int, int]:
    """Weighted letters outside the Latin script, and all weighted letters; both without Greek symbols (λ, Δt, μm)."""
    if is_latin_1(window) or not _NON_LATIN.search(window):
        return 0, 0
    others = _NON_LATIN.findall(window)
    if not _GREEK.isdisjoint(others):
        others = _NON_LATIN.findall(_GREEK_SYMBOL.sub(" ", window))
        if not others:
            return 0, 0
    dense = sum(letter >= DENSE_SCRIPTS for letter in others) if max(others) >= DENSE_SCRIPTS else 0
    return len(others) + dense, sum(map(str.isalpha, window)) + dense


def is_latin_1(text: str) -> bool:
    """Whether all characters are below U+0100, so that the patterns for invisible and non-Latin ones cannot match."""
    return text.isascii() or len(text.encode("latin-1", "ignore")) == len(text)
