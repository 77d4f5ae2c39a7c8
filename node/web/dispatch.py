"""Routes each request to what answers it: a refusal, a mounted application, or a route.

Hot routes, which agents call all the time, are matched by their paths as sent; Litestar matches all others. Both kinds
are served in the same way, and all answers have the same common headers and error format (DESIGN 6).
"""

import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import count
from typing import Protocol

from node.common import counters
from node.common.refusal import Refused
from node.common.request_id import REQUEST_ID
from node.web.address import ClientAddress
from node.web.deadline import Deadlines
from node.web.errors import CLOSE
from node.web.handling import handle_in_turn
from node.web.hot_routes import HotRoutes
from node.web.http import ASGIApp, Receive, Request, Response, Scope, Send, receive_all
from node.web.origin import PREFLIGHT, OriginPolicy
from node.web.paths import Paths
from node.web.responder import Responder, without_body
from node.web.route import Route
from node.web.router import Router
from node.web.throughput import Throughput
from node.web.turn import ClientTurns, RequestTurn

HEALTH = ("/health", "/ready")
"""Health checks. They are answered to every client, even a blocked one, and under any Host, because load balancers call
them."""

MAX_PATH_BYTES = 2048
"""Bytes of the longest path that is routed. No path of the node is a tenth as long."""

_UNCANONICAL = re.compile(rb"//|(?<=.)/\Z|%(?:2[D-Fd-f]|3\d|[46][1-9A-Fa-f]|[57][\dAa]|5[Ff]|7[Ee])")
"""Matches an empty path segment, or an escaped slash or escaped character that needs no escape (RFC 3986 §2.3). A proxy
rule for the plain path would not match such a spelling."""

SLASHED = re.compile(rb"/api/v1/(mcp|inboxes/[\w-]+/a2a)/")
"""Paths that are served despite the trailing slash, which many MCP and JSON-RPC clients append to a base URL."""

_HOST = re.compile(r"(?:[\w.~%!$&'()*+,;=-]+|\[[0-9A-Fa-f:.]+\])(?::\d{0,5})?")
"""Matches a host with an optional port (RFC 9110 §7.2)."""


class Node(Protocol):
    """The parts that the composition root has put together.

    `mounted` applications answer everything below their path prefix by themselves; `router` finds the routes that are
    not `hot`. `drain` announces that the process will stop; `release` answers the requests that wait for a change.
    """

    @property
    def hot(self) -> Sequence[Route]: ...
    @property
    def mounted(self) -> Mapping[str, ASGIApp]: ...
    @property
    def paths(self) -> Paths: ...
    @property
    def origins(self) -> OriginPolicy: ...
    @property
    def throughput(self) -> Throughput: ...
    @property
    def router(self) -> Router: ...

    def refuses(self, client: str) -> bool: ...
    def drain(self) -> None: ...
    def release(self) -> None: ...
    async def close(self) -> None: ...


class Dispatcher:
    """Serves the requests of one process."""

    def __init__(self, node: Node, addresses: ClientAddress) -> None:
        self._hot = HotRoutes(node.hot, node.paths.constant)
        self._mounted = node.mounted
        self._mount_prefixes = tuple(map(str.encode, node.mounted))
        self._router = node.router
        self._paths = node.paths
        self._is_blocked = node.refuses
        self._restricted = None if node.origins.is_open else node.origins
        self._throughput = node.throughput
        self._responder = Responder(self._restricted, node.throughput)
        self._addresses = addresses
        self._deadlines = Deadlines()
        self._turns = ClientTurns(node.throughput)
        # A random prefix and a counter: unique across processes and restarts, and cheaper than a random id for each
        # request.
        self._request_prefix = os.urandom(5).hex()
        self._request_numbers = count()

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        request_id = f"{self._request_prefix}{next(self._request_numbers):08x}"
        REQUEST_ID.set(request_id)
        client = self._addresses.of(scope)
        request = Request(scope, receive, client, request_id, self._deadlines, RequestTurn(self._turns, client, scope))
        refused = self._refusal(request)
        # The path is compared as it was sent: other spellings of a mount or a hot route are refused below.
        raw: bytes = scope["raw_path"]
        if refused is None and raw.startswith(self._mount_prefixes):
            mounted = next(app for prefix, app in self._mounted.items() if request.path.startswith(prefix))
            answer = partial(self._responder.mount, mounted, request, receive_all(scope, receive), send)
            await self._in_turn(request, answer, send)
            return
        if request.method == "HEAD":
            request.is_head = True
            scope["method"] = request.method = "GET"
            send = without_body(send)
        if (refused := refused or _malformed(request, raw)) is not None:
            answer = partial(self._refuse, request, refused, send)
        elif (route := self._hot.find(request, raw)) is not None:
            await self._responder.answer(request, await handle_in_turn(route, request), send)
            return
        else:
            answer = partial(self._unless_hot, request, raw, send)
        await self._in_turn(request, answer, send)

    async def _unless_hot(self, request: Request, raw: bytes, send: Send) -> None:
        """Answer a CORS preflight, refuse a non-canonical spelling of a path, or serve the route that the router
        finds."""
        if request.method == "OPTIONS" and request.header(b"access-control-request-method") is not None:
            counters.UNROUTED.add(204)
            await self._responder.respond(request, Response(204, b"", PREFLIGHT), send)
        elif _UNCANONICAL.search(raw) and not SLASHED.fullmatch(raw):
            await self._refuse_spelling(request, raw, send)
        elif isinstance(found := await self._router.find(request), Response):
            counters.UNROUTED.add(found.status)
            await self._responder.respond(request, found, send)
        else:
            await self._responder.answer(request, await handle_in_turn(found, request), send)

    async def _in_turn(self, request: Request, answer: Callable[[], Awaitable[None]], send: Send) -> None:
        """Run `answer` within the client's turn. (For routes, `handle_in_turn` takes the turn.)

        Requests that are only refused also take turns: otherwise, one client that sends hundreds of them at a time
        would push the process into refusing other clients' requests (`node.overload`).
        """
        try:
            if not request.turn.begin_now():
                await request.turn.begin()
        except Refused as crowded:
            await self._refuse(request, crowded, send)
            return
        try:
            await answer()
        finally:
            request.turn.end()

    def _refusal(self, request: Request) -> Refused | None:
        """Return why this client or web page is refused, whatever it asks for; None if it is not refused, or asks for
        HEALTH."""
        if request.path in HEALTH:
            return None
        if self._is_blocked(request.client):
            return Refused("client.blocked")
        if self._restricted and (code := self._restricted.refusal(request)):
            return Refused(code)
        return self._throughput.refusal(request.client)

    async def _refuse(self, request: Request, refused: Refused, send: Send) -> None:
        """Refuse a request that reaches no handler, in the error format of its path's protocol. Do not wait for its
        body."""
        path = request.scope["raw_path"].decode("latin-1")  # as sent: an escaped slash separates no segments
        response = self._paths.fault(request.method, path)(request, refused)
        counters.UNROUTED.add(response.status)
        if request.is_unread:
            response.headers = [*response.headers, CLOSE]
        await self._responder.respond(request, response, send)

    async def _refuse_spelling(self, request: Request, raw: bytes, send: Send) -> None:
        """Redirect requests for an HTML page to the documented spelling of its path; refuse all other requests."""
        path = re.sub(rb"/+", b"/", raw).rstrip(b"/") or b"/"
        if request.method == "GET" and not _UNCANONICAL.search(path) and self._paths.is_page(path.decode("latin-1")):
            counters.UNROUTED.add(308)
            query: bytes = request.scope["query_string"]
            path = self._paths.root.encode() + path
            location = (b"location", path + b"?" + query if query else path)
            await self._responder.respond(request, Response(308, b"", (location,)), send)
        else:
            await self._refuse(request, Refused("path.spelling"), send)


def _malformed(request: Request, raw: bytes) -> Refused | None:
    """Return the refusal of a request whose Host is unusable or whose path is too long; None for all others."""
    if (not _is_host(request.first_headers.get(b"host")) or request.repeats(b"host")) and not _may_lack_host(request):
        return Refused("host.invalid")
    return Refused("path.long") if len(raw) > MAX_PATH_BYTES else None


def _may_lack_host(request: Request) -> bool:
    """Return whether this is an HTTP/1.0 health check, which many load balancers send without Host (RFC 9112 §3.2)."""
    return request.path in HEALTH and request.scope.get("http_version") == "1" and not request.header(b"host")


@lru_cache(maxsize=64)
def _is_host(value: bytes | None) -> bool:
    return value is not None and _HOST.fullmatch(value.decode("latin-1")) is not None
