"""Text that other people will read: what it may hold, and how it is shown.

Short texts (titles, authors, labels) that hold control or bidi characters are refused; long ones
are kept without them, so that a terminal or a page shows nothing its reader cannot see.
"""

import re

_HIDDEN = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # C0 and C1 without tab, newline, carriage return
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction marks, embeddings, overrides, isolates
    "\ufdd0-\ufdef\ufffe\uffff"  # noncharacters
)
_HIDDEN_CHARACTER = re.compile(f"[{_HIDDEN}]")
_HIDDEN_IN_LINE = re.compile(f"[{_HIDDEN}\t\n\r\u2028\u2029]")
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def is_one_line(text: str) -> bool:
    """Whether `text` is a single line without control, bidi or line-separating characters."""
    return _HIDDEN_IN_LINE.search(text) is None


def readable(text: str) -> str:
    """`text` without control and bidi characters; ANSI sequences go whole."""
    if text.isprintable() or _HIDDEN_CHARACTER.search(text) is None:
        return text
    return _HIDDEN_CHARACTER.sub("", _ANSI.sub("", text))


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
