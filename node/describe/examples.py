"""Example requests and answers for the documents, made from the types of a route, never from data of the node.

A member has the first of its `examples` (`msgspec.Meta`). Without any, its value depends on its type, and that of a
string also on its name: ids, times, tokens and URLs have the form that they have in answers.
"""

import re
import shlex
from http import HTTPStatus
from typing import Any, cast

import msgspec

from node.describe.example_urls import path_of
from node.web.example_values import ID, LATER, PEER_ID, TIME, TOKEN
from node.web.json_schema import Schema, Schemas
from node.web.route import Route

PARAMETER = re.compile(r"\{(\w+)\}")
"""A parameter of a path."""

TEXT_BODY = "Hello from one agent to another."
EARLY = ("created_at", "received_at", "claimed_at", "sent_at", "oldest_at", "listed_at", "timestamp", "at")
"""Members that get the earlier of two times, so that no record ends before it begins."""


def curl(route: Route, schemas: Schemas, base: str) -> list[str]:
    """The parts of a curl command for the operation. Path parameters are shell variables: `$ID`."""
    follows = "L" if route.status == HTTPStatus.TEMPORARY_REDIRECT else ""
    shows_at_once = "N" if route.is_stream else ""
    parts = [f"curl -sS{follows}{shows_at_once} "]
    body = body_of(route, schemas)
    if route.method not in {"GET", "POST"} or (route.method == "POST" and body is None and not route.text_body):
        parts[0] += f"-X {route.method} "
    url = base + PARAMETER.sub(lambda match: "$" + match[1].upper(), route.path)
    parts[0] += f'"{url}?{route.asks}"' if route.asks else url
    parts += [f"-H {shlex.quote(f'{header.name}: {header.example}')}" for header in route.required_headers]
    if "{" in route.path and any(name == "Authorization" for name, _ in route.headers):
        parts.append('-H "Authorization: Bearer $TOKEN"')
    if body is not None:
        parts += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(msgspec.json.encode(body).decode())}"]
    elif route.text_body:
        parts += ["-H 'Content-Type: text/plain'", f"-d {shlex.quote(TEXT_BODY)}"]
    return parts


def body_of(route: Route, schemas: Schemas) -> Any:
    """A JSON body that works as it is: the route's own, or the members that are required or have examples.

    None if the operation takes no JSON.
    """
    if route.example is not None or route.body is None:
        return route.example
    whole = schemas.whole(schemas.use(route.body))
    shown = {name for name, member in whole.get("properties", {}).items() if _given(member)}
    return _object(whole, schemas, "", shown)


def answer_of(route: Route, schemas: Schemas, base: str) -> Any:
    """An answer to the operation: all members of its type, overlaid with what the route shows. `base` begins URLs."""
    whole = schemas.whole(schemas.use(route.answers))
    return _laid_over(_object(whole, schemas, base, set(whole["properties"])), route.shows or {})


def example_of(kind: type[msgspec.Struct], schemas: Schemas, base: str) -> Any:
    """A value of the type with all its members."""
    return _filled(schemas.use(kind), schemas, base)


def _filled(schema: Schema, schemas: Schemas, base: str) -> Any:
    whole = schemas.whole(schema)
    members = cast("dict[str, Schema]", whole["properties"])
    own = _object(whole, schemas, base, set(members))
    return {name: _filled(member, schemas, base) if "$ref" in member else own[name] for name, member in members.items()}


def _laid_over(value: Any, shown: Any) -> Any:
    """`shown` in place of `value`. The members of objects are merged, and UNSET leaves one out."""
    if isinstance(value, dict) and isinstance(shown, dict):
        below, above = cast("dict[str, Any]", value), cast("dict[str, Any]", shown)
        merged = {name: _laid_over(below.get(name), above[name]) for name in above}
        return {name: member for name, member in (below | merged).items() if member is not msgspec.UNSET}
    if isinstance(value, list) and isinstance(shown, list):
        first = next(iter(cast("list[Any]", value)), None)
        return [_laid_over(first, each) for each in cast("list[Any]", shown)]
    return shown


def _given(schema: Schema) -> list[Any]:
    """The examples of a member: of its schema, or of the variants beside null."""
    variants: list[Schema] = [schema, *schema.get("anyOf", [])]
    return [example for one in variants for example in one.get("examples", [])]


def _object(schema: Schema, schemas: Schemas, base: str, shown: set[str]) -> Any:
    """The required members of an object, and those `shown`; for a schema that takes any JSON, an object."""
    if "properties" not in schema:
        return {} if "type" in schema else {"any": "JSON"}
    wanted = shown.union(schema.get("required", []))
    members = cast("dict[str, Schema]", schema["properties"])
    url = base + path_of(schema.get("title", ""), "url")
    return {
        name: url if name == "url" and not _given(member) else _value(name, member, schemas, base)
        for name, member in members.items()
        if name in wanted
    }


def _value(name: str, schema: Schema, schemas: Schemas, base: str) -> Any:
    if examples := _given(schema):
        return examples[0]
    variants: list[Schema] = schema.get("anyOf", [schema])
    schema = schemas.whole(next(one for one in variants if one != {"type": "null"}))
    for word in ("const", "default"):
        if word in schema:
            return schema[word]
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return _object(schema, schemas, base, set())
        case "array":
            return [_value("", schema["items"], schemas, base)]
        case "string":
            return _text(name, base)
        case "boolean":
            return True
        case _:
            return schema.get("minimum", 1)


def _text(name: str, base: str) -> str:
    if name.endswith("url"):
        return base + path_of("", name)
    if name.endswith("token"):
        return TOKEN
    if name.endswith("_at") or name in EARLY:
        return TIME if name in EARLY else LATER
    if name == "id":
        return ID
    return PEER_ID if name.endswith(("_id", "Id")) else name
