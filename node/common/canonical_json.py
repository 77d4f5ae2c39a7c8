"""One form for all ways to write the same JSON, so that a repetition is known by what it says."""

import re

import orjson

_LONG = b"0" * 16
_DIGITS = bytes(ord("0") if byte in b"0123456789." else 0 for byte in range(256))
_TINY = re.compile(rb"[0-9][eE]-[0-9]{3}")


def canonical(raw: bytes, value: object) -> bytes:
    """The JSON document `raw`, whose value is `value`, without white space and its members in order.

    One whose numbers a double may not hold exactly (RFC 8259 §6) stays as it is: two that differ must not come to
    look the same.
    """
    return raw if _is_inexact(raw) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _is_inexact(raw: bytes) -> bool:
    """Whether it holds more than 15 digits in a row, or an exponent that may be beyond all doubles."""
    # Every relay message comes by here: an expression that looks for digits would cost ten times as much.
    return _LONG in raw.translate(_DIGITS) or ((b"e-" in raw or b"E-" in raw) and _TINY.search(raw) is not None)
