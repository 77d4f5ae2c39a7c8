"""Reading JSON bodies and query strings into types, with the errors of SPEC 2.10.

What Litestar would answer with 500 (deep nesting, bad UTF-8) is refused here like any other bad
input. Duplicate keys: the last wins. NaN, Infinity and lone surrogates are not JSON.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

import msgspec
import msgspec.inspect
import orjson
from msgspec.structs import fields

from node.common.refusal import Invalid, Issue, Refused
from node.web.http import Request

T = TypeVar("T")

MAX_DEPTH = 64
"""Levels of nesting in any JSON body."""

MAX_CONTAINERS = 20_000
"""Objects and lists in any JSON body: 1 MiB of `[],` would be 350,000, and take a quarter of a second."""

_IN = b"\x01"
_STEPS = bytes.maketrans(b"[{]}", _IN * 2 + b"\0\0")
_UNMARKED = bytes(set(range(256)) - set(b'[{]}"'))

_SURROGATES = re.compile(  # escaped: a pair, or in the group what is none
    r"\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(\\u[dD][89a-fA-F][\da-fA-F]{2})"
)
_PATH = re.compile(r" - at `(key in )?\$(?P<path>.*)`$")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_INTEGER = re.compile(r"-?[0-9]+")
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
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
        _check_shape(body)
    try:
        value: T = _decoder(kind)(text)
    except msgspec.ValidationError as error:
        raise Invalid([issue_of(str(error), "body")]) from None
    except ValueError as error:  # msgspec's DecodeError, or an integer of thousands of digits
        what = _half_pair(text) or error
        raise Invalid.field("body", msg=f"body is not JSON: {what}", kind="json_invalid") from None
    return value


def read_query(request: Request, kind: type[T]) -> T:
    """The query string as the struct `kind`. Raises Invalid."""
    return convert_query(request.query(), kind)


def convert_query(query: dict[str, str], kind: type[T]) -> T:
    """Query parameters as the struct `kind`; unknown ones are ignored. Raises Invalid."""
    for parameter in _whole(cast("type[msgspec.Struct]", kind)):
        # msgspec reads `1e3` and `20.0` as integers, which no document says.
        if parameter in query and not _INTEGER.fullmatch(query[parameter]):
            raise Invalid.field("query", parameter, msg="Expected int, got str", kind="type_error")
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
def _decoder(kind: Any) -> Callable[[str], Any]:
    return _parse if kind is object else msgspec.json.Decoder(kind).decode


@cache
def _nullable(kind: type[msgspec.Struct]) -> list[tuple[str, str]]:
    return [(field.encode_name, field.name) for field in fields(kind) if field.default is None]


@cache
def _whole(kind: type[msgspec.Struct]) -> list[str]:
    """Parameters that are integers."""
    described = cast("msgspec.inspect.StructType", msgspec.inspect.type_info(kind))
    return [field.encode_name for field in described.fields if _is_whole(field.type)]


def _is_whole(kind: msgspec.inspect.Type) -> bool:
    if isinstance(kind, msgspec.inspect.UnionType):
        return any(_is_whole(one) for one in kind.types)
    return isinstance(kind, msgspec.inspect.IntType)


def _check_shape(body: bytes) -> None:
    """Refuse a body that would cost far more to hold than to send, before anything is made of it. Raises Invalid.

    Looks at brackets outside of strings; whether they pair up is for the parser to say.
    """
    marks = body.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_STEPS, _UNMARKED)
    steps = b"".join(marks.split(b'"')[::2])
    if steps.count(_IN) > MAX_CONTAINERS:
        what = f"body holds more than {MAX_CONTAINERS} objects and lists"
        raise Invalid.field("body", msg=what, kind="json_invalid")
    depth = 0
    for step in steps:
        depth += 1 if step else -1
        if depth > MAX_DEPTH:
            what = f"body is nested more than {MAX_DEPTH} levels deep"
            raise Invalid.field("body", msg=what, kind="json_invalid")


def _half_pair(text: str) -> str | None:
    """What is wrong with a lone surrogate, which parsers call an end that comes too soon; None if there is none."""
    for escape in _SURROGATES.finditer(text.replace("\\\\", "  ")):
        if escape[1]:
            return f"{escape[1]} at character {escape.start()} is half of a surrogate pair"
    return None


def _parse(text: str) -> object:
    # msgspec takes 25 µs for a number like 1e300, and a body has room for 170,000 of them.
    return orjson.loads(text)
