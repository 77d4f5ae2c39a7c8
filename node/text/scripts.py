"""Scripts: how much of a text is written in another one than Latin.

Letters are counted as UTF-16 units by their high byte, which is what the standard library counts at the speed of
memory: all characters of a text that a thread shows take some 30 µs. Not here: the exact count of a window (`windows`).
"""

_NOT_OTHERS = bytes((*range(0x04), 0x1D, 0x1E, *range(0x20, 0x2D), 0x2E, 0xA7, *range(0xD8, 0xF9), 0xFB, 0xFE))
"""High bytes under which a unit is no letter of another script, or need not be one: Latin, symbols, surrogates (emoji)
and private use. Greek letters are counted in pairs."""

_GREEK_PAIR = b"\x03\x03"
"""Two Greek letters side by side are a word's; one alone is a symbol of a formula."""

_DENSE = bytes(range(0x2E))
"""Below are alphabets; from here on a letter is a syllable or a word, and counts double."""

_NOT_LETTERS = bytes(byte for byte in range(256) if not chr(byte).isalpha())


def share_of_others(text: str) -> float:
    """The share of letters outside the Latin script among all letters, 0..1."""
    if text.isascii() or len(text.encode("latin-1", "ignore")) == len(text):
        return 0.0
    units = text.encode("utf-16-le", "surrogatepass")[1::2]
    letters = units.translate(None, _NOT_OTHERS)
    others = len(letters) + len(letters.translate(None, _DENSE)) + (2 * units.count(_GREEK_PAIR) if 3 in units else 0)
    if not others:
        return 0.0
    return others / (others + len(text.encode("latin-1", "ignore").translate(None, _NOT_LETTERS)))
