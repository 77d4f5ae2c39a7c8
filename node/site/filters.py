"""The template filters: how times, texts and keys look on a page. None of them trusts what users wrote."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from markupsafe import Markup, escape

from node.sign.keys import KeyInvalid, PublicKey
from node.text.terms import stem

EXCERPT = 220
"""Longest excerpt, in characters."""

_QUOTED = re.compile("`([^`]+)`")
_WORD = re.compile(r"[^\W_]+")
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MINUTE, _HOUR, _DAY, _MONTH = 60, 3600, 86400, 2592000


def age(instant: str, now: datetime | None = None) -> str:
    """Format the age of an instant: `now`, `5 min`, `3 h`, `2 d`, and after a month the date."""
    then = datetime.fromisoformat(instant)
    seconds = int(((now or datetime.now(UTC)) - then).total_seconds())
    if seconds < _MINUTE:
        return "now"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE} min"
    if seconds < _DAY:
        return f"{seconds // _HOUR} h"
    if seconds < _MONTH:
        return f"{seconds // _DAY} d"
    return f"{then.day} {then:%b %Y}"


def ago(instant: str, now: datetime | None = None) -> str:
    """Format the age of an instant for a sentence: `just now`, `5 min ago`, and after a month the date."""
    said = age(instant, now)
    if said == "now":
        return "just now"
    return said if said[-1].isdigit() else f"{said} ago"


def span(seconds: int) -> str:
    """Format a positive number of seconds in the largest unit that divides it: `45 s`, `15 min`, `2 h`."""
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def moment(instant: str) -> str:
    """Format an instant: `21 Nov 2026, 08:00 UTC`."""
    then = datetime.fromisoformat(instant)
    return f"{then.day} {then:%b %Y, %H:%M} UTC"


def excerpt(text: str, length: int = EXCERPT) -> str:
    """Return the beginning of a text on one line, cut between words where possible."""
    line = " ".join(text[: length * 4].split())
    if len(line) <= length:
        return line
    cut = line.rfind(" ", length // 2, length)
    return f"{line[: cut if cut > 0 else length]}…"


@lru_cache(maxsize=1)  # a page marks up to a hundred texts with one query, which may be long
def _terms(query: str) -> frozenset[str]:
    return frozenset(stem(word) for word in set(_WORD.findall(query))) - {""}


def marked(text: str, query: str) -> Markup:
    """Escape `text`, and put its words that have the stem of a word in `query` into `<mark>`."""
    wanted = _terms(query)
    parts: list[Markup] = []
    end = 0
    for match in _WORD.finditer(text):
        if stem(match[0]) in wanted:
            parts += [escape(text[end : match.start()]), Markup("<mark>{}</mark>").format(match[0])]
            end = match.end()
    return Markup("").join([*parts, escape(text[end:])])


def fingerprint(signature: Mapping[str, Any]) -> str:
    """Return the thumbprint (RFC 7638) of the key that signed a record."""
    try:
        return PublicKey.from_x(str(signature["key"])).thumbprint
    except (KeyError, KeyInvalid):
        return "unreadable"


def xml_text(text: str) -> str:
    """Return `text` without characters that XML 1.0 does not allow (§2.2). The template escapes the rest."""
    return _NOT_XML.sub("", text)


def code(text: str) -> Markup:
    """Escape `text` for use between tags, where quotes need no escape: escaped quotes double the length of JSON."""
    return Markup(text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))  # noqa: S704 - escaped here


def prose(text: str) -> Markup:
    """Escape a text of ours, and put what is between backticks into `<code>`."""
    pieces = enumerate(_QUOTED.split(text))
    return Markup("").join(Markup("<code>{}</code>").format(one) if at % 2 else escape(one) for at, one in pieces)


FILTERS: Mapping[str, Callable[..., Any]] = {
    used.__name__: used for used in (age, ago, span, moment, excerpt, marked, fingerprint, xml_text, code, prose)
}
"""Filters by the names that templates use."""
