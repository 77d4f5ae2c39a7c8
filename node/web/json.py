"""Reading JSON bodies and query strings into types, with the errors of SPEC 2.10.

What Litestar would answer with 500 (deep nesting, bad UTF-8) is refused here like any other bad
input. Duplicate keys: the last wins. NaN, Infinity and lone surrogates are not JSON.
"""

import re
from functools import cache
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import fields

from node.refusal import Invalid, Issue, Refused
from node.web.http import Request

T = TypeVar("T")

MAX_DEPTH = 64
"""Levels of nesting in any JSON body."""

_PATH = re.compile(r" - at `(key in )?\$(?P<path>.*)`$")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_MISSING = re.compile(r"Object missing required field `(\w+)`")


async def read_json(request: Request, kind: type[T]) -> T:
    """The body as `kind`. Raises Refused `body.media_type`, or Invalid."""
    require_json(request)
    return decode(await request.body(), kind)


def require_json(request: Request) -> None:
    """Raise Refused `body.media_type` unless the body says it is JSON."""
    if media_type(request) != "application/json":
        raise Refused("body.media_type", expected="application/json")


def media_type(request: Request) -> str:
    """The media type of the body without parameters, lower case; empty if it names none."""
    return (request.header(b"content-type") or "").partition(";")[0].strip().lower()


def decode(body: bytes, kind: type[T]) -> T:
    """`body` as `kind`. Raises Invalid."""
    try:
        # Typed decoding skips over unknown fields without looking at their bytes.
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Invalid.field("body", msg=f"body is not valid UTF-8 at byte {error.start}", kind="json_invalid") from None
    try:
        value: T = _decoder(kind).decode(text)
        if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
            _check_depth(msgspec.json.decode(text))
    except RecursionError:
        raise _too_deep() from None
    except msgspec.ValidationError as error:
        raise Invalid([issue_of(str(error), "body")]) from None
    except ValueError as error:  # msgspec's DecodeError, or an integer of thousands of digits
        raise Invalid.field("body", msg=f"body is not JSON: {error}", kind="json_invalid") from None
    return value


def read_query(request: Request, kind: type[T]) -> T:
    """The query string as the struct `kind`. Raises Invalid."""
    return convert_query(request.query(), kind)


def convert_query(query: dict[str, str], kind: type[T]) -> T:
    """Query parameters as the struct `kind`; unknown ones are ignored. Raises Invalid."""
    try:
        value = msgspec.convert(query, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid([issue_of(str(error), "query")]) from None
    for parameter, name in _nullable(cast("type[msgspec.Struct]", kind)):
        # msgspec takes the word `null` for None; a parameter that is not wanted is left out.
        if parameter in query and getattr(value, name) is None:
            raise Invalid.field("query", parameter, msg="Expected a value, got null", kind="type_error")
    return value


def issue_of(message: str, where: str) -> Issue:
    """msgspec's message as an item of `detail`: its path becomes `loc`."""
    loc: list[str | int] = [where]
    if match := _PATH.search(message):
        message = message[: match.start()]
        for name, index in _STEP.findall(match["path"]):
            loc.append(int(index) if index.isdigit() else name or index)
    if match := _MISSING.match(message):
        return Issue((*loc, match[1]), "Field required", "missing")
    return Issue(tuple(loc), message.replace("`", ""), "value_error" if "Expected" not in message else "type_error")


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


@cache
def _nullable(kind: type[msgspec.Struct]) -> list[tuple[str, str]]:
    return [(field.encode_name, field.name) for field in fields(kind) if field.default is None]


def _check_depth(value: object) -> None:
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())  # pyright: ignore[reportUnknownArgumentType,reportUnknownMemberType]
            elif isinstance(item, list):
                below.extend(item)  # pyright: ignore[reportUnknownArgumentType]
        if not below:
            return
        level = below
    if any(isinstance(item, dict | list) for item in level):
        raise _too_deep()


def _too_deep() -> Invalid:
    return Invalid.field("body", msg=f"body is nested more than {MAX_DEPTH} levels deep", kind="json_invalid")
