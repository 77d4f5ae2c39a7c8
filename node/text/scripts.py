"""The share of a long text that is not in the Latin script. The exact count for one window is in `windows`.

Letters are UTF-16 units, told apart by their high byte, which the standard library counts very fast: about 30 µs for
20,000 characters, the most that a thread shows.
"""

from node.text.windows import is_latin_1

_NOT_OTHERS = bytes((*range(0x04), 0x1D, 0x1E, *range(0x20, 0x2D), 0x2E, 0xA7, *range(0xD8, 0xF9), 0xFB, 0xFE))
"""High bytes of units that are not letters of another script, or not always: Latin, symbols, surrogates (emoji) and
private use. Greek letters are counted in pairs."""

_GREEK_PAIR = b"\x03\x03"
"""Two Greek letters side by side belong to a word; a single one is a symbol in a formula."""

_DENSE = bytes(range(0x2E))
"""High bytes of alphabets. Above them a letter is a syllable or a word, and counts twice."""

_NOT_LETTERS = bytes(byte for byte in range(256) if not chr(byte).isalpha())


def share_of_others(text: str) -> float:
    """The share of letters outside the Latin script among all letters, 0..1."""
    if is_latin_1(text):
        return 0.0
    units = text.encode("utf-16-le", "surrogatepass")[1::2]
    letters = units.translate(None, _NOT_OTHERS)
    others = len(letters) + len(letters.translate(None, _DENSE)) + (2 * units.count(_GREEK_PAIR) if 3 in units else 0)
    if not others:
        return 0.0
    return others / (others + len(text.encode("latin-1", "ignore").translate(None, _NOT_LETTERS)))
