"""Windows, the short parts in which a text is judged: cleans a text, divides it, and counts letters of other scripts.

`word_evidence` judges words; `verdict` and `english` give verdicts.
"""

import re

from node.text.characters import BIDI, INVISIBLE, JOINING, RARELY_INVISIBLE

WINDOW_CHARACTERS = 160
"""Maximum length of a window: enough words to recognise a language, and few enough that a foreign sentence fills it."""

MAX_BROKEN_WORD_CHARACTERS = 40
"""If a sample has no space within this many characters (Chinese, base64), it is assumed not to begin inside a word."""

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]+")
_LONG_URL = re.compile(f"://[!-~]{{{WINDOW_CHARACTERS // 2},}}")
_INVISIBLE = re.compile(f"[{INVISIBLE}{BIDI}{JOINING}{RARELY_INVISIBLE}]+")

# Letters of any script other than Latin. Excluded are the Latin blocks up to U+02FF and their extensions, and the
# letterlike symbols and numerals of U+2000..2BFF.
_NON_LATIN = re.compile(
    "[^\\W\\d_A-Za-z\u00aa-\u02ff\u1d00-\u1dbf\u1e00-\u1eff\u2000-\u2bff\u2c60-\u2c7f\ua720-\ua7ff\uab30-\uab6f\ufb00-\ufb06]"
)
_GREEK = frozenset(map(chr, range(0x370, 0x400)))
_GREEK_SYMBOL = re.compile(
    r"[ΔΣλμπ](?=[A-Za-z])|(?<![^\W\d_])[\u0370-\u03ff](?![^\W\d_²³¹⁰-₉])"  # raised or lowered digits may follow: σ², λ₁
)
DENSE_SCRIPTS = "\u2e80"
"""First character of the scripts in which a letter is a syllable or a word (CJK, Hangul) and counts twice."""


def clean(text: str) -> str:
    """Return the text without terminal codes and invisible characters, and with a space in place of each run of control
    characters and lone surrogates. So no word that a reader sees can be hidden from the gate."""
    if text.isprintable():  # may still contain fillers and variation selectors, which count as printable
        return text if is_latin_1(text) else _INVISIBLE.sub("", text)
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    text = _CONTROL.sub(" ", text)
    return text if text.isascii() else _INVISIBLE.sub("", text)


def windows(text: str) -> list[str]:
    """Return the windows of a text, cleaned and, if possible, divided at spaces."""
    text = clean(text)
    if "://" in text:  # a URL has no words, but its second half would seem to have some if a cut separated it
        text = _LONG_URL.sub("://", text)
    count = -(-len(text) // WINDOW_CHARACTERS)
    cuts = [0]
    for index in range(1, count):
        target = index * len(text) // count
        space = text.rfind(" ", cuts[-1] + 1, target)
        cuts.append(target if space < 0 else space)
    return [text[start:end] for start, end in zip(cuts, [*cuts[1:], len(text)], strict=True)]


def non_latin(window: str) -> tuple[int, int]:
    """Return the weighted numbers of letters outside the Latin script and of all letters; (0, 0) if all are Latin.

    Greek symbols (λ, Δt, μm) do not count as letters outside the Latin script.
    """
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
    """Return whether all characters are below U+0100.

    No letter below U+0100 is non-Latin. The only invisible character there that is no control character is the soft
    hyphen, which is not printable.
    """
    return text.isascii() or len(text.encode("latin-1", "ignore")) == len(text)
