"""Example requests and answers for the documents, generated from the types of a route, never from stored data.

A member gets the first of its `examples` (`msgspec.Meta`). Without examples, its value follows from its type, and for a
string also from its name: ids, times, tokens and URLs look as in real answers.
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
"""A path parameter."""

TEXT_BODY = "Hello from one agent to another."
EARLY = ("created_at", "received_at", "claimed_at", "sent_at", "oldest_at", "listed_at", "timestamp", "at")
"""Members that get the earlier of the two example times, so that no record ends before it begins."""


def curl(route: Route, schemas: Schemas, base: str) -> list[str]:
    """Return the parts of a curl command for the operation. Path parameters are shell variables, such as `$ID`."""
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
    """Return a valid JSON body: the route's own example, or one of all members that are required or have examples.

    None if the operation takes no JSON.
    """
    if route.example is not None or route.body is None:
        return route.example
    whole = schemas.whole(schemas.use(route.body))
    shown = {name for name, member in whole.get("properties", {}).items() if _given(member)}
    return _object(whole, schemas, "", shown)


def answer_of(route: Route, schemas: Schemas, base: str) -> Any:
    """Return an answer to the operation: all members of its type, overridden by `route.shows`.

    `base`: the public URL with which example URLs begin.
    """
    whole = schemas.whole(schemas.use(route.answers))
    return _laid_over(_object(whole, schemas, base, set(whole["properties"])), route.shows or {})


def example_of(kind: type[msgspec.Struct], schemas: Schemas, base: str) -> Any:
    """Return a value of the type with all its members, down to nested objects."""
    return _filled(schemas.use(kind), schemas, base)


def _filled(schema: Schema, schemas: Schemas, base: str) -> Any:
    whole = schemas.whole(schema)
    members = cast("dict[str, Schema]", whole["properties"])
    own = _object(whole, schemas, base, set(members))
    return {name: _filled(member, schemas, base) if "$ref" in member else own[name] for name, member in members.items()}


def _laid_over(value: Any, shown: Any) -> Any:
    """Override `value` with `shown`. Objects are merged member by member; a member that is UNSET in `shown` is removed.

    Each element of a list in `shown` overrides the first element of the list in `value`.
    """
    if isinstance(value, dict) and isinstance(shown, dict):
        below, above = cast("dict[str, Any]", value), cast("dict[str, Any]", shown)
        merged = {name: _laid_over(below.get(name), above[name]) for name in above}
        return {name: member for name, member in (below | merged).items() if member is not msgspec.UNSET}
    if isinstance(value, list) and isinstance(shown, list):
        first = next(iter(cast("list[Any]", value)), None)
        return [_laid_over(first, each) for each in cast("list[Any]", shown)]
    return shown


def _given(schema: Schema) -> list[Any]:
    """Return the examples of a member, from its schema and the variants in `anyOf`."""
    variants: list[Schema] = [schema, *schema.get("anyOf", [])]
    return [example for one in variants for example in one.get("examples", [])]


def _object(schema: Schema, schemas: Schemas, base: str, shown: set[str]) -> Any:
    """Return an object with its required members and those in `shown`; `{"any": "JSON"}` if any JSON is allowed."""
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
