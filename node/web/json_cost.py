"""Refuses, before parsing, JSON that costs far more to read than its size suggests.

Most bodies cannot exceed any limit: counting a few characters shows that. Only the others are examined closely.
"""

from functools import cache
from typing import Any

import msgspec.inspect

from node.common.refusal import Invalid

MAX_DEPTH = 64
"""Levels of nesting in any JSON body. The limit that parsers have by themselves depends on the interpreter: a thousand
levels, or ten thousand."""

MAX_CONTAINERS = 20_000
"""Objects and lists in any JSON body. 1 MiB of `[],` would contain 350,000 and take a quarter of a second to parse."""

MAX_STRINGS = 20_000
"""Names and texts in a JSON body, unless its type has room for more. Each text is matched against its pattern before
its list is found to be too long: 1 MiB of `"a",` as the skills of a contract would take a quarter of a second."""

MAX_EXPONENTS = 1_000
"""Numbers with an exponent in a JSON body whose type has a member that is decoded as arbitrary JSON (a result_schema).
One such as 1e300 takes 9 µs: 1 MiB of them would take 1.5 s before the schema is found to be too long."""

_OPENING = b"\x01"
_BRACKETS = bytes.maketrans(b"[{]}", _OPENING * 2 + b"\0\0")
"""Translates opening brackets to 1 and closing ones to 0."""
_ALL_ELSE = bytes(set(range(256)) - set(b'[{]}"'))
_NUMBERS = bytes.maketrans(b"123456789E", b"000000000e")
"""Translates all digits to 0 and E to e, so that every exponent shows as `0e`."""


def check_cost(body: bytes, kind: Any) -> None:
    """Raise Invalid for a body that is too expensive to decode as `kind`. Whether it is JSON at all is left to the
    parser."""
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
        # Most bodies stay below the limit even when exponents in strings are counted.
        if numbers.count(b"0e") > MAX_EXPONENTS and _outside_strings(numbers).count(b"0e") > MAX_EXPONENTS:
            raise _invalid(f"holds more than {MAX_EXPONENTS} numbers with an exponent")


def _is_deep(brackets: bytes) -> bool:
    depth = 0
    for bracket in brackets:
        depth += 1 if bracket else -1
        if not 0 <= depth <= MAX_DEPTH:
            return depth > 0  # below 0 it is not JSON, and the parser stops here, whatever follows
    return False


def _brackets(body: bytes) -> bytes:
    """Return the brackets outside strings, as 1 for an opening and 0 for a closing one.

    For a body with too many, the result may include brackets inside strings.
    """
    kept = _without_escapes(body).translate(_BRACKETS, _ALL_ELSE)
    # Two adjacent quotes are either a string without brackets or the boundary between two strings. Removing them moves
    # no other character into or out of a string. After that, every second piece has a bracket that counts, so a body
    # with more pieces than the limit has too many brackets, or is not JSON.
    return _outside_strings(kept.replace(b'""', b""), 4 * MAX_CONTAINERS)


def _outside_strings(text: bytes, most: int = -1) -> bytes:
    """Return the parts of a text without escapes that lie outside strings. If `most` is given, split at that many
    quotes at most."""
    return b"".join(text.split(b'"', most)[::2])


def _without_escapes(body: bytes) -> bytes:
    """Return the body without escaped quotes and backslashes, so that each remaining quote begins or ends a string."""
    return body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body


def _invalid(what: str) -> Invalid:
    return Invalid.field("body", msg=f"body {what}", kind="json_invalid")


@cache
def _holds_any(kind: Any) -> bool:
    """Return whether values of a type may contain arbitrary JSON of any size."""
    return kind is object or _holds(kind, msgspec.inspect.RawType)  # Any is a result_schema: at most 16 KiB


@cache
def _holds(kind: Any, wanted: type[msgspec.inspect.Type]) -> bool:
    """Return `contains_type` for the type of a body. `object`, which orjson decodes, has no parts."""
    return kind is not object and contains_type(msgspec.inspect.type_info(kind), wanted)


def contains_type(kind: msgspec.inspect.Type, wanted: type[msgspec.inspect.Type]) -> bool:
    """Return whether a type, or any part of it, is of the wanted kind."""
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
