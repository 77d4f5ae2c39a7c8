"""A plausible value of a JSON Schema, so that documents can show the shape of an answer.

The value is made from the schema alone: it says which members there are and what they look like,
and is never data of the node.
"""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from node.web.example_values import ID, LATER, PEER_ID, TIME, TOKEN
from node.web.json_schema import Schema, Schemas
from node.web.route import Route

BY_NAME: Mapping[str, object] = {
    "artifactId": PEER_ID,
    "assignee_id": "summary-agent",
    "attempt": 1,
    "author": "csv-agent",
    "body": "I can. Send the artifact id.",
    "completed_at": LATER,
    "contextId": PEER_ID,
    "description": "One page of plain English.",
    "digest_sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "elapsed_ms": 900_000,
    "epoch": "1",
    "expires_at": LATER,
    "filename": "readings.csv",
    "label": "planning",
    "lease_expires_at": LATER,
    "lease_seconds": 900,
    "media_type": "text/csv",
    "messageId": ID,
    "next_since_seq": 1,
    "node_id": "relay-node",
    "publisher_id": "report-desk",
    "reason": None,
    "score": 0.83,
    "signature": None,
    "snippet": "Who can parse 40 MB of CSV in a sandbox?",
    "thread_id": PEER_ID,
    "title": "Looking for a CSV parser",
    "version": "1.0.0",
}
"""What members of these names look like, where the schema allows it."""

PREFERRED = ("open", "offered", "registered", "both", "TASK_STATE_COMPLETED")
"""Values of an enumeration that an example shows rather than its first."""

DENIED = frozenset({"is_signed", "push_notifications", "require_proof", "streaming"})
"""Members that are rather false than true."""

_DEEPEST = 6


def sample(schema: Schema, schemas: Schemas, *, base: str = "", full: bool = True) -> Any:
    """A value that `schema` allows. `base` begins every URL.

    Members that may be missing are shown at the top, and only if `full`.
    """
    return _value("", schema, _Maker(schemas, base, full), _DEEPEST)


def answer_of(route: Route, schemas: Schemas, base: str) -> Any:
    """An example of the operation's answer: a sample of its type, with what the route says that it shows."""
    value = sample(schemas.use(route.answers), schemas, base=base)
    return value if route.shows is None else _laid_over(value, route.shows)


def _laid_over(value: Any, shown: Any) -> Any:
    if isinstance(value, dict) and isinstance(shown, dict):
        below, above = cast("dict[str, Any]", value), cast("dict[str, Any]", shown)
        merged = {name: _laid_over(below.get(name), above[name]) for name in above}
        return {name: member for name, member in (below | merged).items() if member is not msgspec.UNSET}
    if isinstance(value, list) and isinstance(shown, list):
        first = next(iter(cast("list[Any]", value)), None)
        return [_laid_over(first, each) for each in cast("list[Any]", shown)]
    return shown


class _Maker:
    def __init__(self, schemas: Schemas, base: str, full: bool) -> None:
        self.schemas = schemas
        self.base = base
        self.full = full


def _value(name: str, schema: Schema, maker: _Maker, depth: int) -> Any:
    schema = maker.schemas.whole(schema)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        values = cast("list[Any]", schema["enum"])
        return next((value for value in PREFERRED if value in values), values[0])
    if "anyOf" in schema:
        variants = cast("list[Schema]", schema["anyOf"])
        if name in BY_NAME and BY_NAME[name] is None:
            return None
        return _value(name, next((one for one in variants if one != {"type": "null"}), variants[0]), maker, depth)
    kind = schema.get("type")
    if kind == "object":
        return _object(schema, maker, depth)
    if kind == "array":
        return [_value("", cast("Schema", schema["items"]), maker, depth - 1)] if schema.get("items") and depth else []
    return _scalar(name, kind, schema, maker)


def _object(schema: Schema, maker: _Maker, depth: int) -> dict[str, Any]:
    if not depth:
        return {}
    properties = cast("dict[str, Schema]", schema.get("properties", {}))
    required = cast("list[str]", schema.get("required", []))
    return {
        name: _value(name, member, maker, depth - 1)
        for name, member in properties.items()
        if name in required or (maker.full and depth == _DEEPEST)
    }


def _scalar(name: str, kind: object, schema: Schema, maker: _Maker) -> Any:
    known = BY_NAME.get(name)
    if kind == "string" and "default" in schema:
        return schema["default"]
    if kind == "string":
        return known if isinstance(known, str) else _text(name, maker.base)
    if kind == "boolean":
        return schema.get("default", name not in DENIED)
    if kind in {"integer", "number"}:
        return known if isinstance(known, int | float) else schema.get("default", schema.get("minimum", 1))
    return {"any": "JSON"} if kind is None else None


def _text(name: str, base: str) -> str:
    if name == "callback_url":
        return "https://agent.example/callback"
    if name.endswith("url"):
        return f"{base}/…"
    if name.endswith("token"):
        return TOKEN
    if name.endswith("_at") or name == "timestamp":
        return TIME
    if name == "id" or name.endswith("_id"):
        return ID
    return name.replace("_", " ") or "text"
