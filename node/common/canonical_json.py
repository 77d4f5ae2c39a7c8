"""One form for the spellings of a JSON value, by which a repeated message is recognised.

`1` and `1.0`, which RFC 8785 makes one, stay two: who repeats a message writes its numbers as before, and to make them
one would take a walk over every value of a large payload.
"""

import re

import orjson

_DIGITS = bytes(ord("0") if byte in b"0123456789." else 0 for byte in range(256))
"""Translates digits and the decimal point to 0, and everything else to NUL."""
_LONG = b"0" * 16
"""Sixteen of those zeros: a number with more than 15 digits, or with 15 digits and a point."""
_TINY = re.compile(rb"[0-9][eE]-[0-9]{3}")
"""The exponent of a number that may be too small for a double."""


def canonical(raw: bytes, value: object) -> bytes:
    """The JSON document `raw`, whose value is `value`, without white space and with its members in order.

    A document with numbers that a double may not represent exactly (RFC 8259 §6) stays as it is, so that documents with
    different numbers do not become equal.
    """
    return raw if _is_inexact(raw) else _sorted(value)


def _sorted(value: object) -> bytes:
    # Not by msgspec, whose stack overflows where an object has some 60,000 names that are in order already.
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _is_inexact(raw: bytes) -> bool:
    """Whether a number has more than 15 digits, or an exponent that may be out of the range of doubles."""
    # Called for every relay message. A regular expression for digits would take ten times as long, and `in` one and a
    # half times as long as `find`: it first tries to read its left operand as a number.
    return raw.translate(_DIGITS).find(_LONG) >= 0 or (
        raw.find(b"-") >= 0 and (raw.find(b"e-") >= 0 or raw.find(b"E-") >= 0) and _TINY.search(raw) is not None
    )
