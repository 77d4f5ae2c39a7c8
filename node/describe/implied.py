"""What follows from a route for every description of its operation: its errors, its limit in words, the types it names.

A `Route` says what is particular to its operation; the errors that follow from taking a body or using the store are
here. `node.describe.openapi` and `node.describe.operations` write all of it down.
"""

from collections.abc import Iterable
from typing import Any

from node.config import Limit
from node.describe.examples import PARAMETER
from node.share.cost import COSTS, Alarm
from node.web.dispatch import HEALTH
from node.web.errors import CATALOGUE, Entry
from node.web.route import Route

STATIC_TAGS = frozenset({"discovery"})
"""Operations that need no store and cannot fail."""

IDEMPOTENCY = "idempotency.conflict"
SIGNATURE = "signature.invalid"
"""An operation that lists one of these codes takes the headers that the error is about."""

BODY_CODES = (
    "body.incomplete",
    "body.coding",
    "body.stalled",
    "body.too_large",
    "body.media_type",
    "body.encoded",
    "request.invalid",
)
OVERLOADED = "node.overloaded"
"""The error that any operation can answer with before it has begun."""

REFUSED_BEFORE = ("client.blocked", "origin.refused", "limit.throughput", "limit.waiting")
"""Why a client or a web page is refused whatever it asks for, except for the health of the node (HEALTH)."""

KEEPING_NOTHING = frozenset({"", "lease", "search", "stream", "mcp"})
"""Limits of operations of which the node keeps nothing, by their class."""
FINISHING = frozenset(kind for kind, cost in COSTS.items() if cost.alarm is Alarm.NEVER)
"""Limits of operations that finish something, which no lack of room refuses; each has the name of a kind."""
ROOM_CODES = ("memory.low", "disk.low", "node.full")

STORE_CODES = ("store.unavailable", "store.unknown", "store.busy")
INVALID = Entry(422, "The request does not have the shape described; detail lists the fields.")


def described(routes: Iterable[Route]) -> list[Route]:
    """The routes that the documents describe."""
    return [route for route in routes if not route.hidden]


def types_of(routes: Iterable[Route]) -> list[Any]:
    """The types of all bodies and answers, in the order of the routes."""
    named = (
        kind
        for route in routes
        for kind in (route.body, route.answers, *(other.answers for other in route.also), *route.callbacks)
        if kind is not None
    )
    return list(dict.fromkeys(named))


def bodies_of(routes: Iterable[Route]) -> list[Any]:
    """The types of request bodies that are ours."""
    return list(dict.fromkeys(route.body for route in routes if route.body not in (None, object)))


def takes_json(route: Route) -> bool:
    """Whether the operation takes a JSON body, of a type of ours or of another specification."""
    return route.body is not None or route.example is not None


def takes_key(route: Route) -> bool:
    """Whether the operation takes an Idempotency-Key."""
    return IDEMPOTENCY in route.errors or any(name == "Idempotency-Key" for name, _ in route.headers)


def own_codes(route: Route) -> list[str]:
    """The error codes that are particular to the operation, and that of its limit."""
    return [*route.errors, *(["limit.exceeded"] if route.limit else [])]


def codes_of(route: Route) -> list[str]:
    """Every error code that the operation can answer with: its own, and those that follow from what it takes."""
    codes = own_codes(route)
    if takes_json(route) or route.text_body:
        codes += BODY_CODES
    if route.query is not None:
        codes.append("request.invalid")
    if route.has_etag:
        codes.append("content.other")
    kept = route.keeps or route.limit
    if kept not in KEEPING_NOTHING:
        codes += ["quota.bytes", *(() if kept in FINISHING else ROOM_CODES)]
    if route.tag not in STATIC_TAGS:
        codes += [*STORE_CODES, "server.bug"]
    codes.append(OVERLOADED)
    if route.path not in HEALTH:
        codes += REFUSED_BEFORE
    not_errors = {other.status for other in route.also}
    return [code for code in dict.fromkeys(codes) if entry_of(code).status not in not_errors]


def entry_of(code: str) -> Entry:
    """The catalogue's entry, with its placeholders written `<name>`."""
    entry = INVALID if code == "request.invalid" else CATALOGUE[code]
    return Entry(entry.status, PARAMETER.sub(r"<\1>", entry.sentence))


def limit_within(kind: str) -> str:
    """What a limit counts by in addition to the client address (DESIGN 4), or of an operation's calls, if not all."""
    return {
        "reply": " and thread",
        "line": " and session",
        "stream": ", for streams",
        "result": ", for results that are refused",
    }.get(kind, "")


def limit_text(limit: Limit) -> str:
    """`10 in 60 s`."""
    return f"{limit.count} in {limit.seconds} s" if limit.count else "none"
