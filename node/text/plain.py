"""Text that other people will read: what it may hold, and how it is shown.

Short texts (titles, authors, labels) that hold control, bidi or invisible characters are refused; long
ones are kept without them, so that nothing is said to a program that its reader's screen or page does not show.
"""

import re

INVISIBLE = (
    # What Unicode lets a display leave out (Default_Ignorable_Code_Point), but for JOINING and bidi characters: soft
    # hyphen, fillers, zero-width spaces, variation selectors, tags. And the marks of annotations.
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0"
    "\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Direction marks, embeddings, overrides, isolates."""

_SELECTORS, _JOINERS = "\ufe0e\ufe0f", "\u200c\u200d"
JOINING = _SELECTORS + _JOINERS
"""Invisible too, but part of an emoji or a word where they follow a visible character: text or emoji, ZWNJ, ZWJ."""

_C0 = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f"  # without tab, newline, carriage return
_C1 = "\x80-\x9f"
_NONCHARACTERS = "\ufdd0-\ufdef\ufffe\uffff"
_HIDDEN = _C0 + _C1 + BIDI + INVISIBLE + _NONCHARACTERS
_ENDS_LINE = "\t\n\r\u2028\u2029"
_HIDDEN_CHARACTER = re.compile(f"[{_HIDDEN}]")
_HIDDEN_IN_LINE = re.compile(f"[{_HIDDEN}{_ENDS_LINE}]")
_HIDDEN_ASCII = re.compile(f"[{_C0}]")
_DOUBTFUL = re.compile(f"[{_HIDDEN}{JOINING}]")
_STRAY = re.compile(  # a character is followed by one selector and one joiner at most, in this order
    rf"(?<!\S)[{JOINING}]+|(?<=[{_JOINERS}])[{JOINING}]+|(?<=[{_SELECTORS}])[{_SELECTORS}][{JOINING}]*"
)
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def is_one_line(text: str) -> bool:
    """Whether `text` is a single line without control, bidi, invisible or line-separating characters."""
    if text.isascii() and text.isprintable():
        return True
    return _HIDDEN_IN_LINE.search(text) is None and _STRAY.search(text) is None


def readable(text: str) -> str:
    """`text` without control, bidi and invisible characters; ANSI sequences go whole."""
    if text.isascii():  # the common case is looked through three times as fast
        if text.isprintable() or _HIDDEN_ASCII.search(text) is None:
            return text
    elif _DOUBTFUL.search(text) is None:
        return text
    return _STRAY.sub("", _HIDDEN_CHARACTER.sub("", _ANSI.sub("", text)))


def first_sentence(text: str, limit: int) -> str:
    """The first sentence of `text` on one line, cut at `limit` characters on a word's end."""
    line = " ".join(readable(text[: limit * 8]).split())
    match = re.search(r"[.!?](?=\s)", line)
    if match is not None:
        line = line[: match.end()]
    if len(line) <= limit:
        return line
    cut = line[: limit - 1]
    return (cut[: cut.rfind(" ")] if " " in cut[limit // 2 :] else cut) + "…"
