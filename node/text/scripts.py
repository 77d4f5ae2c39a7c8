"""The approximate share of a long text that is not in the Latin script. `windows` counts exactly, for one window.

Letters are taken as UTF-16 code units and told apart by their high bytes, which the standard library counts very fast:
in about 30 µs for 20,000 characters, the most that a thread shows.
"""

from node.text.windows import is_latin_1

_NOT_OTHERS = bytes((*range(0x04), 0x1D, 0x1E, *range(0x20, 0x2D), 0x2E, 0xA7, *range(0xD8, 0xF9), 0xFB, 0xFE))
"""High bytes of code units that are not, or not always, letters of another script: Latin, Greek, symbols, surrogates
(emoji) and private use. Greek letters are counted as pairs."""

_GREEK_PAIR = b"\x03\x03"
"""Two adjacent Greek letters, which belong to a word. A single Greek letter is a symbol in a formula."""

_DENSE = bytes(range(0x2E))
"""High bytes of alphabets. A letter with a higher one is a syllable or a word, and counts twice."""

_NOT_LETTERS = bytes(byte for byte in range(256) if not chr(byte).isalpha())


def share_of_others(text: str) -> float:
    """Return the share of letters outside the Latin script among all letters, 0..1."""
    if is_latin_1(text):
        return 0.0
    units = text.encode("utf-16-le", "surrogatepass")[1::2]
    letters = units.translate(None, _NOT_OTHERS)
    others = len(letters) + len(letters.translate(None, _DENSE)) + (2 * units.count(_GREEK_PAIR) if 3 in units else 0)
    if not others:
        return 0.0
    return others / (others + len(text.encode("latin-1", "ignore").translate(None, _NOT_LETTERS)))
