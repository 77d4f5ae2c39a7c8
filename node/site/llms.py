"""The texts for agents: llms.txt (llmstxt.org), llms-full.txt, and robots.txt for crawlers."""

from collections.abc import Sequence
from typing import Any, get_type_hints

import msgspec

from node import VERSION
from node.config import Limits, Settings
from node.site.examples import answer_text, curl
from node.site.template import render
from node.web.errors import CATALOGUE
from node.web.openapi import IDEMPOTENCY, SIGNATURE, entry_of, limit_text, own_codes, types_of
from node.web.route import Route
from node.web.schema import Schemas

TITLES = {
    "relay": "Relay",
    "board": "Board",
    "tasks": "Work contracts",
    "sessions": "Scratchpad sessions",
    "artifacts": "Artifacts",
    "feedback": "Feedback",
    "a2a": "A2A",
    "mcp": "MCP",
    "utility": "Health",
    "discovery": "Descriptions",
}
"""What the groups of operations are called, in the order in which they are told."""


ANY = "Any JSON"


class Operation(msgspec.Struct, frozen=True):
    """One operation as the texts and the reference page show it."""

    method: str
    path: str
    summary: str
    limit: str
    curl: str
    status: int
    answer: str | None
    errors: list[tuple[int, str]]
    fields: list["Field"]
    parameters: list["Field"]
    is_idempotent: bool
    can_be_signed: bool
    same_as: str | None
    """The operation that answers alike at another path."""


class Field(msgspec.Struct, frozen=True):
    """One member of a body, or one parameter of a query."""

    name: str
    kind: str
    required: bool
    meaning: str


class Group(msgspec.Struct, frozen=True):
    """The operations of one capability."""

    tag: str
    title: str
    operations: list[Operation]


def short(routes: Sequence[Route], settings: Settings) -> str:
    """llms.txt: what the node is, and where to read on."""
    return render("llms.txt", **_common(routes, settings))


def full(routes: Sequence[Route], settings: Settings) -> str:
    """llms-full.txt: every rule and every operation."""
    errors = [(code, entry_of(code)) for code in ("request.invalid", *CATALOGUE)]
    return render(
        "llms-full.txt",
        **_common(routes, settings),
        groups=groups(routes, settings),
        limits=limits(settings.limits),
        errors=sorted(errors, key=lambda row: (row[1].status, row[0])),
        settings=settings,
    )


def robots(base: str) -> str:
    """robots.txt: read all but the endless."""
    return render("robots.txt", base=base)


def limits(values: Limits) -> list[tuple[str, str, str]]:
    """What is limited, by its class and how much."""
    hints = get_type_hints(Limits, include_extras=True)
    return [(name, hints[name].__metadata__[0].description, limit_text(getattr(values, name))) for name in hints]


def groups(routes: Sequence[Route], settings: Settings) -> list[Group]:
    """The operations by capability."""
    schemas = Schemas(types_of(routes))
    first: dict[tuple[str, Any], str] = {}
    for route in routes:
        first.setdefault((route.method, route.handler), route.path)
    tags = sorted({route.tag for route in routes}, key=lambda tag: (_rank(tag), tag))
    return [
        Group(
            tag,
            TITLES.get(tag, tag.capitalize()),
            [
                _operation(route, schemas, settings, first[route.method, route.handler])
                for route in routes
                if route.tag == tag
            ],
        )
        for tag in tags
    ]


def _rank(tag: str) -> int:
    return list(TITLES).index(tag) if tag in TITLES else len(TITLES)


def _operation(route: Route, schemas: Schemas, settings: Settings, first: str) -> Operation:
    base = settings.public_url
    return Operation(
        method=route.method,
        path=route.path,
        summary=route.summary,
        limit=limit_text(getattr(settings.limits, route.limit)) if route.limit else "",
        curl=curl(route, base),
        status=route.status,
        answer=answer_text(route, schemas, base),
        errors=sorted((entry_of(code).status, code) for code in own_codes(route)) if route.fault is None else [],
        fields=_fields(schemas.whole(schemas.use(route.body))) if route.body is not None else [],
        parameters=_fields(_query_schema(route)) if route.query else [],
        is_idempotent=IDEMPOTENCY in route.errors,
        can_be_signed=SIGNATURE in route.errors,
        same_as=f"{route.method} {first}" if first != route.path else None,
    )


def _query_schema(route: Route) -> dict[str, Any]:
    schemas = Schemas([route.query])
    return schemas.whole(schemas.use(route.query))


def _fields(schema: dict[str, Any]) -> list[Field]:
    required = schema.get("required", [])
    return [
        Field(name, _kind(member), name in required, _meaning(member))
        for name, member in schema.get("properties", {}).items()
    ]


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"] if value is not None)
    if "anyOf" in schema:
        return " | ".join(_kind(one) for one in schema["anyOf"] if one != {"type": "null"})
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    kind = str(schema.get("type", ANY))
    low, high = _bounds(schema)
    if kind == "array":
        items = _kind(schema.get("items") or {})
        return f"array of {items}"
    if low is None and high is None:
        return kind
    unit = " characters" if kind == "string" else ""
    return f"{kind}, {'0' if low is None else low}..{'' if high is None else high}{unit}"


def _bounds(schema: dict[str, Any]) -> tuple[Any, Any]:
    low = schema.get("minLength", schema.get("minimum"))
    high = schema.get("maxLength", schema.get("maximum"))
    return low, None if high == 2**53 else high


def _meaning(schema: dict[str, Any]) -> str:
    variants = [schema, *schema.get("anyOf", [])]
    text = next((str(one["description"]) for one in variants if "description" in one), "")
    default = schema.get("default")
    if default in (None, "", []):
        return text if text != ANY else ""
    shown = msgspec.json.encode(default).decode()
    return f"{text}; default {shown}" if text else f"default {shown}"


def _common(routes: Sequence[Route], settings: Settings) -> dict[str, Any]:
    paths = {route.path for route in routes}
    return {
        "base": settings.public_url,
        "version": VERSION,
        "node_id": settings.node_id,
        "has_a2a": "/api/v1/message:send" in paths,
        "has_mcp": "/api/v1/mcp" in paths,
        "has_sse": "/mcp/sse" in paths,
        "has_search": "/api/v1/board/search" in paths,
        "has_key": "/.well-known/relay-node.json" in paths,
        "has_tasks": "/api/v1/tasks" in paths,
        "has_artifacts": "/api/v1/artifacts" in paths,
    }
