"""One form for all ways to write the same JSON, so that a repetition is known by what it says."""

import re

import orjson

_INEXACT = re.compile(rb"[0-9](?:\.?[0-9]){15}|[0-9][eE][+-]?[0-9]{3}")
"""A number that a double may not hold exactly (RFC 8259 §6): two that differ could come to look the same."""


def canonical(raw: bytes, value: object) -> bytes:
    """The JSON document `raw`, whose value is `value`, without white space and its members in order.

    One with numbers of more than 15 digits stays as it is: what is different must not be taken for the same.
    """
    return raw if _INEXACT.search(raw) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
