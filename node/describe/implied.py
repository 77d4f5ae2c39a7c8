"""Facts that all descriptions of an operation derive from its route: its errors, its limit in words, its types.

A `Route` lists only the errors that are particular to its operation. This module adds those that follow from taking a
body or using the store. `node.describe.openapi` and `node.describe.operations` write the descriptions.
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
"""Tags of operations that need no store and cannot fail."""

IDEMPOTENCY = "idempotency.conflict"
SIGNATURE = "signature.invalid"
"""A route that lists IDEMPOTENCY or SIGNATURE takes the headers that the error is about."""

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
"""The error with which any operation can be refused before it begins."""

REFUSED_BEFORE = ("client.blocked", "origin.refused", "limit.throughput", "limit.waiting")
"""Errors with which a client or web page is refused whatever it requests, except the node's health (HEALTH)."""

KEEPING_NOTHING = frozenset({"", "lease", "search", "stream", "mcp"})
"""Limit classes of operations that store nothing."""
FINISHING = frozenset(kind for kind, cost in COSTS.items() if cost.alarm is Alarm.NEVER)
"""Limit classes of operations that finish something and are never refused for lack of room. Each is also a kind of
cost."""
ROOM_CODES = ("memory.low", "disk.low", "node.full")

STORE_CODES = ("store.unavailable", "store.unknown", "store.busy")
INVALID = Entry(422, "The request does not match its description; `detail` lists every wrong field.")


def described(routes: Iterable[Route]) -> list[Route]:
    """Return the routes that the documents describe: all that are not hidden."""
    return [route for route in routes if not route.hidden]


def types_of(routes: Iterable[Route]) -> list[Any]:
    """Return the types of all bodies, answers and callbacks, in the order of the routes."""
    named = (
        kind
        for route in routes
        for kind in (route.body, route.answers, *(other.answers for other in route.also), *route.callbacks)
        if kind is not None
    )
    return list(dict.fromkeys(named))


def bodies_of(routes: Iterable[Route]) -> list[Any]:
    """Return the types of request bodies that the node itself defines."""
    return list(dict.fromkeys(route.body for route in routes if route.body not in (None, object)))


def takes_json(route: Route) -> bool:
    """Return whether the operation takes a JSON body, of the node's own types or of another specification."""
    return route.body is not None or route.example is not None


def takes_key(route: Route) -> bool:
    """Return whether the operation takes an Idempotency-Key."""
    return IDEMPOTENCY in route.errors or any(name == "Idempotency-Key" for name, _ in route.headers)


def own_codes(route: Route) -> list[str]:
    """Return the error codes that are particular to the operation, and that of its limit if it has one."""
    return [*route.errors, *(["limit.exceeded"] if route.limit else [])]


def codes_of(route: Route) -> list[str]:
    """Return every error code with which the operation can answer: its own, and those that follow from its route."""
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
    """Return the catalogue entry of a code, with placeholders written as `<name>`."""
    entry = INVALID if code == "request.invalid" else CATALOGUE[code]
    return Entry(entry.status, PARAMETER.sub(r"<\1>", entry.sentence))


def limit_within(kind: str) -> str:
    """Return what follows "per client address" in a limit's description: its scope (DESIGN 4) or what it counts."""
    return {
        "reply": " and thread",
        "line": " and session",
        "search": ", for searches",
        "stream": ", for streams",
        "result": ", for results that are refused",
    }.get(kind, "")


def limit_text(limit: Limit) -> str:
    """Format a limit, such as `10 in 60 s`; `none` if it is switched off."""
    return f"{limit.count} in {limit.seconds} s" if limit.count else "none"
