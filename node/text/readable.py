"""Text as people see it: without characters that are invisible or cover others (`characters` lists them).

Short texts (titles, authors, labels) with such characters are refused. Long texts are stored without them, so that a
text cannot tell a program anything that a person at the screen does not see.
"""

import re

from node.text.characters import (
    ARABIC,
    ARABIC_JOINED,
    HIDDEN,
    INDIC,
    JOINED_PICTURES,
    JOINING,
    OLD_PICTURES,
    PICTURES,
    PILING,
    RARELY_INVISIBLE,
    SPACES,
    TEXT_PICTURES,
    VIRAMAS,
)

MAX_MARKS = 3
"""Maximum number of combining marks on one character: as many as living languages need. More marks would cover the
neighbouring lines."""

_HIDDEN = re.compile(f"[{HIDDEN}]+")
_HIDDEN_ASCII = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")  # without tab, newline, carriage return
_RARE = re.compile(r"[\U00010000-\U0001efff\U0001fb00-\U0010ffff]+")
_RARELY_HIDDEN = re.compile(f"[{RARELY_INVISIBLE}]+")
_JOINING = re.compile(f"[{JOINING}]")
_STRAY = re.compile(
    # Variation selectors that neither follow an emoji with both forms nor are part of a keycap.
    rf"\ufe0e(?<![{TEXT_PICTURES}{OLD_PICTURES}]\ufe0e)|\ufe0f(?<![{TEXT_PICTURES}]\ufe0f)(?!(?<=[0-9#*]\ufe0f)\u20e3)"
    # Zero-width joiners that neither join two emoji nor shape a consonant.
    rf"|\u200d(?!(?<=[{PICTURES}]\u200d)[{JOINED_PICTURES}])(?!(?<=[{PICTURES}]\ufe0f\u200d)[{JOINED_PICTURES}])"
    rf"(?!(?<=[{VIRAMAS}]\u200d)(?:[\w\s]|\Z))(?!(?<=[{INDIC}]\u200d)[{VIRAMAS}])"
    # Zero-width non-joiners that do not separate letters which would otherwise join.
    rf"|\u200c(?!(?<=[{ARABIC_JOINED}]\u200c)[{ARABIC}])(?!(?<=[{ARABIC_JOINED}][\u064b-\u0652]\u200c)[{ARABIC}])"
    rf"(?!(?<=[{VIRAMAS}]\u200c)(?:[\w\s]|\Z))"
)
_HARMLESS = re.compile(rf"(?<=[{PICTURES}])\ufe0f|(?<=[{ARABIC}])\u200c(?=[{ARABIC}])")
"""Characters that keyboards insert even where they have no effect."""
_PILE = re.compile(rf"([{PILING}][{PILING}]{{{MAX_MARKS - 1}}})[{PILING}]+[{JOINING}]?")
_SPACE = re.compile(f"[{SPACES}]")
_LINE = re.compile(r"[\u2028\u2029]")
_ENDS_LINE = re.compile(r"[\t\n\r\u2028\u2029]")
_DOUBTFUL = re.compile(f"[{HIDDEN}{JOINING}{PILING}{SPACES}\u2028\u2029\U00010000-\U0001efff\U0001fb00-\U0010ffff]")
_SENTENCE_END = re.compile(r"[.!?] ")
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def is_one_line(text: str) -> bool:
    """Return whether `text` is a single line of visible characters."""
    if text.isascii() and text.isprintable():
        return True
    if _ENDS_LINE.search(text):
        return False
    text = _SPACE.sub(" ", _HARMLESS.sub("", text))
    return readable(text) == text


def readable(text: str) -> str:
    """Return `text` without invisible characters, ANSI sequences, and more than MAX_MARKS marks on a character."""
    if text.isascii():  # a shortcut for most texts, which takes a third of the time
        if text.isprintable() or _HIDDEN_ASCII.search(text) is None:
            return text
    elif _DOUBTFUL.search(text) is None:
        return text
    text = _HIDDEN.sub("", _ANSI.sub("", text))
    if not text.isascii():
        text = _LINE.sub("\n", _SPACE.sub(" ", _without_rare_hidden(text)))
        if _JOINING.search(text):
            text = _STRAY.sub("", text)
        text = _PILE.sub(r"\1", text)
    return text


def _without_rare_hidden(text: str) -> str:
    """Return `text` without invisible characters beyond U+FFFF. Each distinct character is judged only once."""
    rare = set("".join(_RARE.findall(text)))
    seen = filter(str.isprintable, _RARELY_HIDDEN.sub("", "".join(rare)))
    hidden = dict.fromkeys(map(ord, rare.difference(seen)))
    return text.translate(hidden) if hidden else text


def first_sentence(text: str, limit: int) -> str:
    """Return the first sentence of `text` on one line, cut at the end of a word if it exceeds `limit` characters."""
    line = readable(text[: limit * 8])
    is_clean = line.isprintable() and "  " not in line  # a shortcut: the only printable white space is the space
    line = line.strip(" ") if is_clean else " ".join(line.split())
    if end := _SENTENCE_END.search(line):
        line = line[: end.start() + 1]
    if len(line) <= limit:
        return line
    cut = line[: limit - 1].rstrip(JOINING)
    return (cut[: cut.rfind(" ")] if " " in cut[limit // 2 :] else cut) + "…"
