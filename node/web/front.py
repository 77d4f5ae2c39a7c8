"""The outermost ASGI application: what is true of every request and answer, and the hot routes.

A hot route (relay, session lines, lists, claims, message:send, MCP) goes from here straight to its handler; all
else goes through Litestar's router. Either way the answer leaves with the same headers and the same
errors (DESIGN 6).
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import count
from time import perf_counter
from typing import Protocol

import structlog

from node.common import counters
from node.common.refusal import Refused
from node.common.request_id import REQUEST
from node.common.signals import DRAIN, RELEASE_WAITERS
from node.web.address import ClientAddress
from node.web.deadline import Deadlines
from node.web.errors import code_of, response_to
from node.web.http import (
    ASGIMessage,
    Disconnected,
    Header,
    Receive,
    Request,
    Response,
    Scope,
    Send,
    Streaming,
    receive_all,
)
from node.web.origin import CORS_OPEN, CORS_READABLE, Origins
from node.web.paths import Paths
from node.web.route import Route
from node.web.throughput import BODY_WEIGHT, FREE, Throughput

log = structlog.get_logger()

ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

NOSNIFF: Header = (b"x-content-type-options", b"nosniff")
PREFLIGHT: tuple[Header, ...] = (
    (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, DELETE, OPTIONS"),
    (
        b"access-control-allow-headers",
        b"Content-Type, Accept, Authorization, Content-Digest, Signature, Signature-Input, Signature-Key, "
        b"Idempotency-Key, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name, Last-Event-ID, A2A-Version, "
        b"A2A-Extensions, If-None-Match",
    ),
    (b"access-control-max-age", b"7200"),
)

HEALTH = ("/health", "/ready")
"""What a blocked client is still answered, and whoever asks under another name: load balancers do."""

_UNCANONICAL = re.compile(rb"//|(?<=.)/\Z|%(?:2[D-Fd-f]|3\d|[46][1-9A-Fa-f]|[57][\dAa]|5[Ff]|7[Ee])")
"""A spelling of a path that rules of a proxy for that path would miss: an empty step, or an escape of a slash or of
what needs none (RFC 3986 §2.3)."""

SLASHED = frozenset({b"/api/v1/mcp/"})
"""Served all the same: MCP clients are often configured with it."""

CLOSE: Header = (b"connection", b"close")

_HOST = re.compile(r"(?:[\w.~%!$&'()*+,;=-]+|\[[0-9A-Fa-f:.]+\])(?::\d{0,5})?")
"""A host and perhaps a port (RFC 9110 §7.2)."""


class Node(Protocol):
    """What the composition root hands over once a process is ready to serve."""

    @property
    def hot(self) -> Sequence[Route]: ...

    @property
    def mounted(self) -> Mapping[str, ASGIApp]: ...

    async def router(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    @property
    def paths(self) -> Paths: ...

    @property
    def origins(self) -> Origins: ...

    @property
    def throughput(self) -> Throughput: ...

    def refuses(self, client: str) -> bool: ...

    def drain(self) -> None: ...

    def release(self) -> None: ...

    async def close(self) -> None: ...


class Front:
    """The ASGI application of a web process."""

    def __init__(self, compose: Callable[[], Awaitable[Node]], addresses: ClientAddress) -> None:
        self._compose = compose
        self._addresses = addresses
        self._exact: dict[tuple[str, bytes], Route] = {}
        self._nested: dict[tuple[str, str, str], Route] = {}
        self._mounted: Mapping[str, ASGIApp] = {}
        self._mounts: tuple[bytes, ...] = ()
        self._router: ASGIApp | None = None
        self._answer: ASGIApp = self._serve
        self._refuses: Callable[[str], bool] = _refuses_nobody
        self._paths = Paths(())
        self._closed: Origins | None = None
        """Which pages may call, where not all may."""
        self._deadlines = Deadlines()
        self._throughput = Throughput(0)
        # Unique over processes and restarts, and cheaper than a random one for each request.
        self._request_prefix = os.urandom(5).hex()
        self._request_numbers = count()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = f"{self._request_prefix}{next(self._request_numbers):08x}"
        REQUEST.set(request_id)
        request = Request(scope, receive, self._addresses.of(scope), request_id, self._deadlines)
        if (refused := self._refusal(request)) is not None and request.path not in HEALTH:
            await self._refuse(request, refused, send)
            return None
        # As it was sent: what another spelling decodes to is not asked for here.
        raw: bytes = scope["raw_path"]
        if raw.startswith(self._mounts):
            whole = request.end_of(receive_all(scope, receive))
            return await self._mount(request)(scope, whole, self._with_request_id(request, send))
        is_head = request.method == "HEAD"
        if is_head:
            scope["relay.head"] = True
            scope["method"] = request.method = "GET"
            send = _without_body(send)
        if not _is_host(request.header(b"host")) or request.repeats(b"host"):
            await self._refuse(request, Refused("host.invalid"), send)
        elif (route := self._hot(request, raw)) is not None:
            response = await counted(route, request)
            if isinstance(response, Streaming):
                await self._stream(request, response, send, wanted=not is_head)
            elif response is not None:
                await self._respond(request, response, send)
        elif request.method == "OPTIONS" and request.header(b"access-control-request-method") is not None:
            counters.UNROUTED.add(204)
            await self._respond(request, Response(204, b"", PREFLIGHT), send)
        elif _UNCANONICAL.search(raw) and raw not in SLASHED:
            await self._refuse_spelling(request, raw, send)
        elif self._router is not None:
            scope["relay.request"] = request
            try:
                await self._router(scope, receive_all(scope, receive), self._with_headers(request, send))
            finally:
                # Two that hold each other would outlive the answer, and with them a body that nobody reads:
                # Granian closes such a connection only when its last reader is gone.
                del scope["relay.request"]
        return None

    def _refusal(self, request: Request) -> Refused | None:
        """Why nothing of this client, or from this page, is looked at now, if it is not."""
        if self._refuses(request.client):
            return Refused("client.blocked")
        if self._closed and (code := self._closed.refusal(request)):
            return Refused(code)
        return self._throughput.refusal(request.client)

    async def _refuse(self, request: Request, refused: Refused, send: Send) -> None:
        """Refuse what gets to no handler, in the form of its path: protocols have errors of their own.

        Its body is not waited for.
        """
        response = self._paths.fault(request.method, request.path)(request, refused)
        counters.UNROUTED.add(response.status)
        if request.is_unread:
            response.headers = [*response.headers, CLOSE]
        await self._respond(request, response, _without_body(send) if request.method == "HEAD" else send)

    async def _refuse_spelling(self, request: Request, raw: bytes, send: Send) -> None:
        """Lead a reader of pages to the path that is meant; refuse all others."""
        meant = re.sub(rb"/+", b"/", raw).rstrip(b"/") or b"/"
        if request.method == "GET" and not _UNCANONICAL.search(meant) and self._paths.is_page(meant.decode("latin-1")):
            counters.UNROUTED.add(308)
            query: bytes = request.scope["query_string"]
            location = (b"location", meant + b"?" + query if query else meant)
            await self._respond(request, Response(308, b"", (location,)), send)
        else:
            await self._refuse(request, Refused("path.spelling"), send)

    def _mount(self, request: Request) -> ASGIApp:
        """The app that answers for all methods below a path by itself, headers and errors included."""
        return next(app for prefix, app in self._mounted.items() if request.path.startswith(prefix))

    def _hot(self, request: Request, raw: bytes) -> Route | None:
        route = self._exact.get((request.method, raw))
        if route is None and raw.startswith(b"/api/v1/") and len(raw) == len(request.path):  # no escape in it
            parts = request.path.split("/")
            if len(parts) == 6:  # "", api, v1, sessions, {id}, messages; or tasks, {id}, claim
                route = self._nested.get((request.method, parts[3], parts[5]))
                if route is not None:
                    request.params = {"id": parts[4]}
        return route

    async def _respond(self, request: Request, response: Response, send: Send) -> None:
        """Send an answer with the headers that every answer has."""
        if len(response.body) >= FREE or request.size >= FREE:
            self._count(request, len(response.body))
        headers = [
            *response.headers,
            *request.notes,
            *self._common(request, response.headers),
            (b"content-length", b"%d" % len(response.body)),
        ]
        if request.is_unread:
            await _end_body(request, headers)
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})

    async def _stream(self, request: Request, response: Streaming, send: Send, *, wanted: bool) -> None:
        """Send an answer that is made while it is sent; of one whose body is not wanted, the headers."""
        headers = [*response.headers, *request.notes, *self._common(request, response.headers)]
        if request.is_unread:
            await _end_body(request, headers)
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await response.send_body(send, wanted=wanted)

    def _count(self, request: Request, size: int) -> None:
        """Count the bytes of a request that is answered with `size` bytes."""
        self._throughput.add(request.client, request.size, BODY_WEIGHT)
        self._throughput.add(request.client, size)

    def _common(self, request: Request, headers: Sequence[Header]) -> tuple[Header, ...]:
        named: Header = (b"x-request-id", request.id.encode())
        for name, _ in headers:
            if name == b"access-control-allow-origin":
                return named, NOSNIFF
        if self._closed:
            return named, NOSNIFF, *self._closed.headers(request)
        # Which headers a script may read is told to browsers only: it is as long as all the others together.
        if request.header(b"origin") is not None:
            return named, NOSNIFF, *CORS_READABLE
        return named, NOSNIFF, CORS_OPEN

    def _with_headers(self, request: Request, send: Send) -> Send:
        async def send_on(message: ASGIMessage) -> None:
            if message["type"] == "http.response.start":
                headers: list[Header] = [(bytes(name), bytes(value)) for name, value in message["headers"]]
                headers += self._common(request, headers)
                if request.is_unread:
                    await _end_body(request, headers)
                message["headers"] = headers
            else:
                self._count(request, len(message.get("body", b"")))
            await send(message)

        return send_on

    def _with_request_id(self, request: Request, send: Send) -> Send:
        async def send_on(message: ASGIMessage) -> None:
            if message["type"] == "http.response.start":
                counters.MOUNTED.add(message["status"])
                headers: list[Header] = [*message["headers"], (b"x-request-id", request.id.encode())]
                if self._closed:
                    headers = [each for each in headers if each != CORS_OPEN] + [*self._closed.headers(request)]
                if request.is_unread:
                    await _end_body(request, headers)
                message["headers"] = headers
            await send(message)

        return send_on

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            node = await self._compose()
        except Exception:
            log.exception("web process cannot start")
            await send({"type": "lifespan.startup.failed", "message": "see the log"})
            raise
        for route in node.hot:
            parts = route.path.split("/")
            if "{id}" in parts:
                self._nested[route.method, parts[3], parts[5]] = route
            else:
                self._exact[route.method, route.path.encode()] = route
        self._mounted = node.mounted
        self._mounts = tuple(map(str.encode, node.mounted))
        self._router = node.router
        self._refuses = node.refuses
        self._paths = node.paths
        self._closed = None if node.origins.is_open else node.origins
        self._throughput = node.throughput
        with suppress(NotImplementedError, ValueError):  # not in the main thread: a test
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(DRAIN, self._drain, node)
            loop.add_signal_handler(RELEASE_WAITERS, node.release)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        node.release()
        await node.close()
        await send({"type": "lifespan.shutdown.complete"})

    def _drain(self, node: Node) -> None:
        """Serve on, but have every client leave: a request that comes as its connection is closed would be lost."""
        node.drain()
        self._answer = self._serve_last

    async def _serve_last(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._serve(scope, receive, _closing(send))


async def counted(route: Route, request: Request) -> Response | None:
    """`handle`, and count how the request ended and how long it took."""
    began = perf_counter()
    response = await handle(route, request)
    route.calls.add(counters.CLIENT_GONE if response is None else response.status, perf_counter() - began)
    return response


async def handle(route: Route, request: Request) -> Response | None:
    """Run a handler; whatever goes wrong becomes an answer. None if the client has gone away."""
    try:
        return await route.handler(request)
    except Disconnected:
        return None
    except Exception as failure:  # noqa: BLE001 - the one place where any failure becomes a logged 500
        response = (route.fault or response_to)(request, failure)
        counters.REFUSALS[code_of(failure, response.status)] += 1
        return response


async def _end_body(request: Request, headers: list[Header]) -> None:
    """Read off a body that no handler wanted, before its answer is sent; else the answer says `Connection: close`.

    Granian closes a connection whose body was not read, unsaid, and the client's next request on it would be lost.
    """
    if CLOSE not in headers and not await request.read_off():
        headers.append(CLOSE)


def _without_body(send: Send) -> Send:
    async def send_on(message: ASGIMessage) -> None:
        if message["type"] == "http.response.body":
            message = {"type": "http.response.body", "body": b"", "more_body": message.get("more_body", False)}
        await send(message)

    return send_on


def _closing(send: Send) -> Send:
    async def send_on(message: ASGIMessage) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], CLOSE]
        await send(message)

    return send_on


def _refuses_nobody(_client: str) -> bool:
    return False


@lru_cache(maxsize=64)
def _is_host(value: str | None) -> bool:
    return value is not None and _HOST.fullmatch(value) is not None
