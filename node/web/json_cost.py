"""Refuses JSON that costs far more to read than its size suggests, before it is parsed.

A body is examined closely only if it could exceed a limit at all; in most, a few characters are counted.
"""

from functools import cache
from typing import Any

import msgspec.inspect

from node.common.refusal import Invalid

MAX_DEPTH = 64
"""Levels of nesting in any JSON body. What parsers refuse by themselves depends on the interpreter: a thousand levels,
or ten thousand."""

MAX_CONTAINERS = 20_000
"""Objects and lists in any JSON body. 1 MiB of `[],` would hold 350,000, and take a quarter of a second to parse."""

MAX_STRINGS = 20_000
"""Names and texts in a JSON body whose type has no room for as many. Each is matched with its pattern before their list
is found to be too long: 1 MiB of `"a",` as the skills of a contract would take a quarter of a second."""

MAX_EXPONENTS = 1_000
"""Numbers with an exponent in a JSON body whose type has a member of any JSON, a result_schema, which is decoded. One
such as 1e300 takes 9 µs: 1 MiB of them would take 1.5 s before the schema is found to be too long."""

_OPENING = b"\x01"
_BRACKETS = bytes.maketrans(b"[{]}", _OPENING * 2 + b"\0\0")
"""Opening brackets become 1, closing ones 0."""
_ALL_ELSE = bytes(set(range(256)) - set(b'[{]}"'))
_NUMBERS = bytes.maketrans(b"123456789E", b"000000000e")
"""All digits become 0 and E becomes e, so that an exponent begins with `0e`."""


def check_cost(body: bytes, kind: Any) -> None:
    """Raise Invalid for a body that is not to be read as `kind`. Whether it is JSON at all is left to the parser."""
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
        brackets = _brackets(body)
        if brackets.count(_OPENING) > MAX_CONTAINERS:
            raise _invalid(f"holds more than {MAX_CONTAINERS} objects and lists")
        if _is_deep(brackets):
            raise _invalid(f"is nested more than {MAX_DEPTH} levels deep")
    if body.count(b'"') > 2 * MAX_STRINGS and not _holds_any(kind):
        quotes = _without_escapes(body).count(b'"')
        if quotes > 2 * MAX_STRINGS:
            raise _invalid(f"holds more than {MAX_STRINGS} names and texts")
    if len(body) > 4 * MAX_EXPONENTS and _holds(kind, msgspec.inspect.AnyType):
        numbers = _without_escapes(body).translate(_NUMBERS)
        # Most bodies have fewer, even if those in strings count.
        if numbers.count(b"0e") > MAX_EXPONENTS and _outside_strings(numbers).count(b"0e") > MAX_EXPONENTS:
            raise _invalid(f"holds more than {MAX_EXPONENTS} numbers with an exponent")


def _is_deep(brackets: bytes) -> bool:
    depth = 0
    for bracket in brackets:
        depth += 1 if bracket else -1
        if not 0 <= depth <= MAX_DEPTH:
            return depth > 0  # below 0 it is no JSON, and the parser ends here, however much follows
    return False


def _brackets(body: bytes) -> bytes:
    """The brackets outside of strings: 1 for an opening one, 0 for a closing one.

    For a body with too many, the result may include brackets within strings.
    """
    kept = _without_escapes(body).translate(_BRACKETS, _ALL_ELSE)
    # Two quotes side by side are a string without brackets, or lie between two strings. Without them, all else is in or
    # outside of strings as before, and every second piece has a bracket that counts: if there are more pieces than
    # these, the body has too many, or is no JSON.
    return _outside_strings(kept.replace(b'""', b""), 4 * MAX_CONTAINERS)


def _outside_strings(text: bytes, most: int = -1) -> bytes:
    """The parts outside of strings of a text without escapes. If `most` is given, only as many quotes count."""
    return b"".join(text.split(b'"', most)[::2])


def _without_escapes(body: bytes) -> bytes:
    """The body without escaped quotes and backslashes, so that each quote left begins or ends a string."""
    return body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body


def _invalid(what: str) -> Invalid:
    return Invalid.field("body", msg=f"body {what}", kind="json_invalid")


@cache
def _holds_any(kind: Any) -> bool:
    """Whether values of a type may hold JSON of any kind and any size."""
    return kind is object or _holds(kind, msgspec.inspect.RawType)  # Any is a result_schema, which has 16 KiB at most


@cache
def _holds(kind: Any, wanted: type[msgspec.inspect.Type]) -> bool:
    """`contains_type` for a type of a body; `object`, which orjson reads, has no parts."""
    return kind is not object and contains_type(msgspec.inspect.type_info(kind), wanted)


def contains_type(kind: msgspec.inspect.Type, wanted: type[msgspec.inspect.Type]) -> bool:
    """Whether a type, or a part of it, is of the wanted kind."""
    if isinstance(kind, wanted):
        return True
    match kind:
        case msgspec.inspect.Metadata():
            return contains_type(kind.type, wanted)
        case msgspec.inspect.UnionType():
            return any(contains_type(each, wanted) for each in kind.types)
        case msgspec.inspect.CollectionType():
            return contains_type(kind.item_type, wanted)
        case msgspec.inspect.DictType():
            return contains_type(kind.value_type, wanted)
        case msgspec.inspect.StructType():
            return any(contains_type(field.type, wanted) for field in kind.fields)
        case _:
            return False
