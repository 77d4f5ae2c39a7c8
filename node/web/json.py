"""Decodes JSON bodies and query strings into types, with the errors of SPEC 2.10.

Deep nesting, bad UTF-8 and anything else that makes a parser fail are also client errors. If a key is repeated, its
last value counts. NaN, Infinity and lone surrogates are not JSON.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any, TypeVar, cast

import msgspec
import msgspec.inspect
import orjson
from msgspec.structs import fields

from node.common.cohort import next_stage
from node.common.refusal import Invalid, Issue, Refused
from node.web.http import Header, Request, parameters_of
from node.web.issues import (
    IGNORED,
    as_meant,
    field_types,
    ignored,
    issue_of,
    issues_of_body,
    issues_of_query,
    members_of,
    require_content,
)
from node.web.json_cost import check_cost, contains_type
from node.web.large_bodies import LARGE_BODY

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

REMEMBERED_QUERIES = 1024
REMEMBERED_QUERY_BYTES = 128
"""Longest query, in bytes, whose result is cached: many clients send the same short list queries. Only frozen structs
are cached, because requests share them."""

_INTEGER = re.compile(r"-?[0-9]+")


async def read_json(request: Request, kind: type[T]) -> T:
    """Return the body as `kind`. A header names ignored members. Raises Refused `body.media_type`, or Invalid."""
    require_json(request)
    return await decode_in_steps(request, await request.body(), kind, request.answer_headers)


async def read_optional_json(request: Request, kind: type[T]) -> T:
    """Do what `read_json` does, but take an empty body as the defaults of all fields."""
    return await read_json(request, kind) if await request.body() else kind()


def require_json(request: Request) -> None:
    """Raise Refused `body.media_type` unless the Content-Type is JSON."""
    if media_type(request) != "application/json":
        raise Refused("body.media_type", expected="application/json")


def media_type(request: Request) -> str:
    """Return the media type of the body in lower case, without parameters; empty if the request names none."""
    return (request.header(b"content-type") or "").partition(";")[0].strip().lower()


async def decode_in_steps(request: Request, body: bytes, kind: type[T], headers: list[Header] | None = None) -> T:
    """Do what `decode` does, and let other requests run: those of the cohort after it, or if the body is large, all of
    them between the steps and after the last one.

    Also raises Refused `store.busy`.
    """
    if len(body) < LARGE_BODY:
        value = decode(body, kind, headers)
        await next_stage()
        return value
    text = _checked(body, kind)
    await request.turn.before_step(len(body))
    value = _parsed(text, kind, headers)
    await request.turn.before_step(len(body))
    return value


def decode(body: bytes, kind: type[T], headers: list[Header] | None = None) -> T:
    """Return `body` as `kind`. Name the members that the type lacks in `headers`. Raises Invalid."""
    return _parsed(_checked(body, kind), kind, headers)


def _checked(body: bytes, kind: type[object]) -> str:
    """Return the text of a body that is UTF-8 and cheap enough to parse. Raises Invalid for any other."""
    try:
        # All of it first: msgspec skips unknown fields without checking their encoding.
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Invalid.field("body", msg=f"body is not valid UTF-8 at byte {error.start}", kind="json_invalid") from None
    check_cost(body, kind)
    return text


def _parsed(text: str, kind: type[T], headers: list[Header] | None) -> T:
    try:
        try:
            value: T = _decoder(kind, headers is not None)(text)
        except msgspec.ValidationError as error:
            return _second_look(text, kind, headers, str(error))
    except ValueError as error:  # DecodeError of msgspec, or a plain ValueError for an integer of thousands of digits
        what = _lone_surrogate(text) or error
        raise Invalid.field("body", msg=f"body is not JSON: {what}", kind="json_invalid") from None
    return value


def _second_look(text: str, kind: type[T], headers: list[Header] | None, first: str) -> T:
    """Return the body as `kind`, decoded without unknown members, without nulls that stand for defaults, and without
    the `.0` of integers.

    `first`: the error that msgspec found in the body as it was sent. Raises Invalid.
    """
    if not issubclass(kind, msgspec.Struct):
        raise Invalid([issue_of(first, "body")])
    members = members_of(text)
    if members is not None:
        if headers is not None and (header := ignored("body", members, kind)):
            headers.append(header)
            require_content(text, kind, members)
        members = as_meant(members, kind)
        if issues := issues_of_body(members, kind):
            raise Invalid(issues)
        text = msgspec.json.encode(members).decode()
    else:
        require_content(text, kind, None)
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        raise Invalid([issue_of(str(error), "body")]) from None


def read_query(request: Request, kind: type[S]) -> S:
    """Return the query string as `kind`. A header names ignored parameters. Raises Invalid."""
    raw: bytes = request.scope["query_string"]
    if len(raw) <= REMEMBERED_QUERY_BYTES and kind.__struct_config__.frozen:
        with suppress(Invalid):  # parsed again below: errors are not cached
            value, headers = _remembered(raw, kind)
            request.answer_headers += headers
            return cast("S", value)
    query = request.query()
    if query and (header := ignored("query", query, kind)):
        request.answer_headers.append(header)
    return convert_query(query, kind)


@lru_cache(REMEMBERED_QUERIES)
def _remembered(raw: bytes, kind: type[msgspec.Struct]) -> tuple[msgspec.Struct, tuple[Header, ...]]:
    query = parameters_of(raw)
    header = ignored("query", query, kind)
    return convert_query(query, kind), (header,) if header else ()


def name_parameters(request: Request, kind: type[msgspec.Struct] | None = None) -> None:
    """Name in a header the query parameters that `kind` lacks. A `kind` of None has none.

    Replaces the names from an earlier call with another `kind`.
    """
    request.answer_headers[:] = [each for each in request.answer_headers if each[0] != IGNORED]
    with suppress(Invalid):  # a query string that cannot be parsed has no names
        if header := ignored("query", request.query(), kind):
            request.answer_headers.append(header)


def convert_query(query: dict[str, str], kind: type[S]) -> S:
    """Return query parameters as `kind`, ignoring unknown ones. Raises Invalid."""
    # msgspec would read `1e3` and `20.0` as integers.
    odd = [name for name in _integers(kind) if name in query and not _INTEGER.fullmatch(query[name])]
    try:
        value = None if odd else msgspec.convert(query, kind, strict=False)
    except msgspec.ValidationError:
        value = None
    if value is None:
        issues = issues_of_query({name: text for name, text in query.items() if name not in odd}, kind)
        raise Invalid([*(Issue(("query", name), "Expected int, got str", "type_error") for name in odd), *issues])
    # msgspec would read the word `null` as None.
    nulls = [parameter for parameter, name in _nullable(kind) if parameter in query and getattr(value, name) is None]
    if nulls:
        raise Invalid([Issue(("query", name), "Expected a value, got null", "type_error") for name in nulls])
    return value


@cache
def _decoder(kind: Any, knows_all: bool) -> Callable[[str], Any]:
    """Return the decoder of a type. `knows_all`: whether unknown members are an error, which finds them without
    examining each member."""
    if kind is object:
        # msgspec takes 25 µs for a number like 1e300, and a body has room for 170,000 of them.
        return orjson.loads
    known = msgspec.defstruct(kind.__name__, [], bases=(kind,), forbid_unknown_fields=True) if knows_all else kind
    return msgspec.json.Decoder(known).decode


@cache
def _nullable(kind: type[msgspec.Struct]) -> list[tuple[str, str]]:
    return [(field.encode_name, field.name) for field in fields(kind) if field.default is None]


@cache
def _integers(kind: type[msgspec.Struct]) -> list[str]:
    """Return the names of the integer parameters."""
    return [name for name, of in field_types(kind).items() if contains_type(of, msgspec.inspect.IntType)]


def _lone_surrogate(text: str) -> str | None:
    """Describe the lone surrogate that makes a text invalid JSON, if any. msgspec may report an early end instead."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if "surrogate" in error.msg:
            return f"{text[error.pos : error.pos + 6]} at character {error.pos} is half of a surrogate pair"
    return None
