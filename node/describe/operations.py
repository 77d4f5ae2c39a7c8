"""The operations as llms-full.txt and the reference pages describe them, generated from the route tables.

`node.describe.openapi` generates the OpenAPI document from the same tables.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, get_args, get_type_hints

import msgspec

from node.config import Limit, Limits, Settings
from node.describe.examples import answer_of, curl
from node.describe.implied import SIGNATURE, entry_of, limit_text, limit_within, own_codes, takes_key, types_of
from node.web.errors import CATALOGUE
from node.web.json_schema import MAX_SAFE_INTEGER, Schemas, schema_of
from node.web.route import DONE, Route

TITLES = {
    "relay": "Relay",
    "board": "Board",
    "tasks": "Work contracts",
    "sessions": "Scratchpad sessions",
    "artifacts": "Artifacts",
    "inboxes": "Inboxes",
    "agents": "Directory of agents",
    "events": "Events",
    "feedback": "Feedback",
    "a2a": "A2A",
    "mcp": "MCP",
    "utility": "Health",
    "discovery": "Descriptions",
    "pages": "Pages",
}
"""Titles of the groups of operations by tag, in display order."""

ANY = "any JSON"


class DocumentedField(msgspec.Struct, frozen=True):
    """One member of a body, one parameter of a query, or one header."""

    name: str
    kind: str
    required: bool
    meaning: str


class DocumentedOperation(msgspec.Struct, frozen=True):
    """One operation: its route, and what the documents add."""

    route: Route
    limit: str
    within: str
    """See `limit_within`."""
    curl: list[str]
    """The parts of a curl command, to be joined on one line or on several."""
    answer: str | None
    errors: list[tuple[int, str]]
    fields: list[DocumentedField]
    parameters: list[DocumentedField]
    headers: list[DocumentedField]
    """The headers that this operation requires, or that have a meaning of their own in it."""
    is_idempotent: bool
    can_be_signed: bool
    same_as: str | None
    """Method and path of an earlier operation with the same handler; None if there is none."""

    @property
    def outcomes(self) -> list[tuple[int, str]]:
        """The meanings of its statuses. A success that means no more than "done" is left out."""
        also = [(other.status, other.meaning) for other in self.route.also if other.status and other.meaning]
        success = self.route.success
        return [(self.route.status, success), *also] if success != DONE else also

    @property
    def anchor(self) -> str:
        """The HTML id of its section."""
        return f"{self.route.method}-{self.route.path}".lower().replace("/", "-").replace("{", "").replace("}", "")


class DocumentedCallback(msgspec.Struct, frozen=True):
    """One kind of callback."""

    types: str
    meaning: str
    data: list[DocumentedField]
    """The members of the callback's `data`."""


class DocumentedGroup(msgspec.Struct, frozen=True):
    """The operations with one tag."""

    tag: str
    title: str
    operations: list[DocumentedOperation]


def groups(routes: Sequence[Route], settings: Settings) -> list[DocumentedGroup]:
    """Return the operations, grouped by tag."""
    schemas = Schemas(types_of(routes))
    first: dict[tuple[str, Any], str] = {}
    for route in routes:
        first.setdefault((route.method, route.handler), route.path)
    return [
        DocumentedGroup(
            tag,
            TITLES[tag],
            [
                _operation(route, schemas, settings, first[route.method, route.handler])
                for route in routes
                if route.tag == tag
            ],
        )
        for tag in tags_of(routes)
    ]


def tags_of(routes: Sequence[Route]) -> list[str]:
    """Return the tags that have operations, in display order."""
    shown = list(TITLES)
    return sorted({route.tag for route in routes}, key=shown.index)  # a tag without a title is a bug: the start fails


def limits(values: Limits) -> list[tuple[str, str, str]]:
    """Return every limit: its class, what it counts, and how much it allows."""
    hints = get_type_hints(Limits, include_extras=True)
    return [(name, hints[name].__metadata__[0].description, limit_text(getattr(values, name))) for name in hints]


def errors() -> list[tuple[int, str, str]]:
    """Return every error with which an operation can answer: its status, code and sentence."""
    entries = {code: entry_of(code) for code in ("request.invalid", *CATALOGUE)}
    return sorted((entry.status, code, entry.sentence) for code, entry in entries.items())


def callbacks(routes: Sequence[Route]) -> list[DocumentedCallback]:
    """Return every kind of callback that may be sent to a callback_url."""
    kinds = dict.fromkeys(kind for route in routes for kind in route.callbacks)
    return [
        DocumentedCallback(
            " or ".join(f"`{name}`" for name in get_args(get_type_hints(kind)["type"])),
            " ".join((inspect.getdoc(kind) or "").split()),
            _fields(get_type_hints(kind)["data"]),
        )
        for kind in kinds
    ]


def _operation(route: Route, schemas: Schemas, settings: Settings, first: str) -> DocumentedOperation:
    base = settings.public_url
    limit: Limit | None = getattr(settings.limits, route.limit) if route.limit else None
    return DocumentedOperation(
        route=route,
        limit=limit_text(limit) if limit and limit.count else "",
        within=limit_within(route.limit),
        curl=curl(route, schemas, base),
        answer=_json(answer_of(route, schemas, base)) if route.answers is not None else None,
        errors=sorted((entry_of(code).status, code) for code in own_codes(route)),
        fields=_fields(route.body),
        parameters=_fields(route.query),
        headers=[
            *(DocumentedField(header.name, "string", True, header.meaning) for header in route.required_headers),
            *(DocumentedField(name, "string", False, meaning) for name, meaning in route.headers),
        ],
        is_idempotent=takes_key(route),
        can_be_signed=SIGNATURE in route.errors,
        same_as=f"{route.method} {first}" if first != route.path else None,
    )


def _fields(kind: Any) -> list[DocumentedField]:
    schema = schema_of(kind) if kind else {}
    required = schema.get("required", [])
    return [
        DocumentedField(name, _kind(member), name in required, _meaning(member))
        for name, member in schema.get("properties", {}).items()
    ]


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"] if value is not None)
    if "anyOf" in schema:
        return " | ".join(_kind(one) for one in schema["anyOf"] if one != {"type": "null"})
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    kind = str(schema.get("type", ANY))
    if kind == "array":
        most = f", at most {schema['maxItems']}" if "maxItems" in schema else ""
        return f"array of {_kind(schema.get('items') or {})}{most}"
    return kind + _bounds(schema, " characters" if kind == "string" else "")


def _bounds(schema: Mapping[str, Any], unit: str) -> str:
    low = schema.get("minLength", schema.get("minimum"))
    high = schema.get("maxLength", schema.get("maximum"))
    high = None if high == MAX_SAFE_INTEGER else high
    if low is None and high is None:
        return ""
    return f", {'0' if low is None else low}..{'' if high is None else high}{unit}"


def _meaning(schema: Mapping[str, Any]) -> str:
    variants = [schema, *schema.get("anyOf", [])]
    text = next((str(one["description"]) for one in variants if "description" in one), "")
    if text.lower() == ANY.lower():
        text = ""
    default = schema.get("default")
    if default in (None, "", []):
        return text
    return f"{text}; default {_json(default)}" if text else f"default {_json(default)}"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
