"""Requirements on short texts of a request: no name or title may be mistaken for another, and no text may be empty.

A name may be in any language, but no word of it may mix alphabets that look alike, as `Аdmin` with a Cyrillic А does.
Words that mix Latin with scripts that look different (`3Dプリンタ`) are common and allowed (Unicode TR39, section 5.2).
`readable` deals with invisible characters.
"""

import re

from node.common.refusal import Invalid, Refused
from node.text.characters import MARKS
from node.text.english import is_english
from node.text.readable import MAX_MARKS, is_one_line

_WORD = re.compile(rf"[^\W\d_](?:[^\W\d_]|[{MARKS}])*")
_LATIN = re.compile("[A-Za-zªº\u00c0-\u024f\u1e00-\u1eff\u2c60-\u2c7f\ua722-\ua7ff\ufb00-\ufb06\uff21-\uff5a]")
_ALPHABETS = (
    _LATIN,
    re.compile("[\u0370-\u03e1\u03f0-\u03ff\u1f00-\u1fff]"),  # Greek
    re.compile("[\u0400-\u052f\u1c80-\u1c8f\ua640-\ua69f]"),  # Cyrillic
    re.compile("[\u0531-\u0588]"),  # Armenian
    re.compile("[\u13a0-\u13ff\uab70-\uabbf]"),  # Cherokee
    re.compile("[\u03e2-\u03ef\u2c80-\u2cff]"),  # Coptic
    re.compile("[\ua4d0-\ua4ff]"),  # Lisu
)
"""Alphabets whose letters can be mistaken for each other."""

_SYMBOLS = re.compile("[ΓΔΘΛΞΠΣΦΨΩδθλμξπφψ]")
"""Greek letters that look like no Latin letter. They occur in units and quantities (μm, Δt)."""
_TITLE_SYMBOLS = re.compile("[ΓΔΘΛΞΠΣΦΨΩα-νξ-ω]")
"""Greek letters that are allowed in a word of a title (TNFα, NF-κB): all but the exact twins of Latin letters."""

_TWINS = re.compile("[аеорсухѕіјһԁԛԝӏАВСЕНІЈКМОРЅТХУԌԚԜαικνορυχϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧ]{2,}")
"""A word in which every letter looks like a Latin one."""


def require_line(field: str, value: str) -> None:
    """Raise Invalid for a text that is not one line of visible characters."""
    if not is_one_line(value):
        raise Invalid.field(
            "body",
            field,
            msg=f"must be one line, without control or invisible characters, and at most {MAX_MARKS} marks on a letter",
        )


def require_name(field: str, value: str) -> None:
    """Raise Invalid for a name that could be mistaken for another."""
    require_line(field, value)
    if mixes_alphabets(value):
        raise _mixed(field)


def require_title(field: str, value: str) -> None:
    """Raise Invalid for a title with a word that could be mistaken for another."""
    require_line(field, value)
    if not value.isascii() and any(map(_is_mixed, _WORD.findall(_TITLE_SYMBOLS.sub("", value)))):
        raise _mixed(field)


def mixes_alphabets(name: str) -> bool:
    """Return whether a word of a name mixes alphabets that look alike, or only looks Latin while another one is."""
    if name.isascii():
        return False
    words = _WORD.findall(_SYMBOLS.sub("", name))
    return any(map(_is_mixed, words)) or (any(map(_TWINS.fullmatch, words)) and any(map(_LATIN.search, words)))


def require_text(field: str, value: str) -> None:
    """Raise Invalid for a text that is empty or only white space."""
    if not value.strip():
        raise Invalid.field("body", field, msg="must contain more than white space")


def require_english(field: str, value: str) -> None:
    """Raise Refused `language.not_english` for a text that is not English."""
    if not is_english(value):
        raise Refused("language.not_english", field=field)


def _is_mixed(word: str) -> bool:
    return sum(alphabet.search(word) is not None for alphabet in _ALPHABETS) > 1


def _mixed(field: str) -> Invalid:
    return Invalid.field(
        "body",
        field,
        msg="must not mix alphabets that look alike, such as Latin and Cyrillic; write each word in one alphabet",
    )
