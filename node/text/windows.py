"""Windows: the short stretches of a text that are judged, cleaned, and how much of one is in another script.

Here: characters. Not here: words (`word_evidence`) and verdicts (`verdict`, `english`).
"""

import re

from node.text.characters import BIDI, INVISIBLE, JOINING, RARELY_INVISIBLE

WINDOW = 160
"""Characters in a window: enough words to tell, few enough that one foreign sentence fills a window."""

LONGEST_BROKEN_WORD = 40
"""Characters; a window that starts with a longer run has no words to cut (Chinese, base64) and stays whole."""

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]+")
_INVISIBLE = re.compile(f"[{INVISIBLE}{BIDI}{JOINING}{RARELY_INVISIBLE}]+")

# Letters of any script but Latin: not the Latin blocks up to U+02FF and their extensions, and not the
# letterlike symbols and numerals of U+2000..2BFF.
_NON_LATIN = re.compile(
    "[^\\W\\d_A-Za-z\u00aa-\u02ff\u1d00-\u1dbf\u1e00-\u1eff\u2000-\u2bff\u2c60-\u2c7f\ua720-\ua7ff\uab30-\uab6f\ufb00-\ufb06]"
)
_GREEK = frozenset(map(chr, range(0x370, 0x400)))
_GREEK_SYMBOL = re.compile(r"[ΔΣλμπ](?=[A-Za-z])|(?<![^\W\d_])[\u0370-\u03ff](?![^\W\d_])")
DENSE_SCRIPTS = "\u2e80"
"""From here on a letter is a syllable or a word (CJK, Hangul): it counts double."""


def clean(text: str) -> str:
    """The text without terminal codes and invisible characters, each run of control characters and lone
    surrogates turned into a space, so that nothing hides a word from the reader."""
    if text.isprintable():  # fillers and variation selectors are too
        return text if _is_latin_1(text) else _INVISIBLE.sub("", text)
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    text = _CONTROL.sub(" ", text)
    return text if text.isascii() else _INVISIBLE.sub("", text)


def windows(text: str) -> list[str]:
    """The cleaned text in windows, cut at spaces where there are any."""
    text = clean(text)
    count = -(-len(text) // WINDOW)
    cuts = [0]
    for place in range(1, count):
        target = place * len(text) // count
        space = text.rfind(" ", cuts[-1] + 1, target)
        cuts.append(target if space < 0 else space)
    return [text[start:end] for start, end in zip(cuts, [*cuts[1:], len(text)], strict=True)]


def non_latin(window: str) -> tuple[int, int]:
    """Weighted letters outside the Latin script, and weighted letters in all. Greek symbols (λ, Δt, μm) are neither."""
    if _is_latin_1(window) or not _NON_LATIN.search(window):
        return 0, 0
    others = _NON_LATIN.findall(window)
    if not _GREEK.isdisjoint(others):
        others = _NON_LATIN.findall(_GREEK_SYMBOL.sub(" ", window))
        if not others:
            return 0, 0
    dense = sum(letter >= DENSE_SCRIPTS for letter in others) if max(others) >= DENSE_SCRIPTS else 0
    return len(others) + dense, sum(map(str.isalpha, window)) + dense


def _is_latin_1(text: str) -> bool:
    """Whether the patterns have nothing to find: what they look for is beyond U+00FF, but for what is not printable."""
    return text.isascii() or len(text.encode("latin-1", "ignore")) == len(text)
