"""One HTTP request and its answer, as every handler of the node takes and returns them.

A handler is `async def handler(request: Request) -> Response`. `node.web.dispatch` finds the handler, and sends what it
returns.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable, MutableMapping, Sequence
from contextvars import copy_context
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from node.common.cancellation import ended_before
from node.common.pauses import PAUSE
from node.common.refusal import Invalid, Issue, Refused
from node.web.deadline import Deadlines
from node.web.large_bodies import LARGE_BODY
from node.web.turn import RequestTurn
from node.web.waiting_places import WaitingPlaces

T = TypeVar("T")

Scope = MutableMapping[str, Any]
ASGIMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[ASGIMessage]]
Send = Callable[[ASGIMessage], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
Header = tuple[bytes, bytes]

FIRST_MESSAGE = "relay.first_message"
"""Scope key under which `node.overload.intake` stores the future of the body's first message, already requested."""

MAX_BODY_BYTES = 1024 * 1024
"""Largest request body (SPEC 8)."""

BODY_STALL_SECONDS = 5.0
"""Timeout for the next byte of the body, after which the request gets 408. Granian has no such timeout."""

MIN_BODY_RATE = 16 * 1024
"""Minimum average rate of a body, in bytes a second, so that an occasional byte does not keep a connection open."""

PIECE_COST = 320
"""Cost of each piece of a body that comes in several, in bytes of an answer (16 µs): 1 MiB in chunks of one byte takes
14 s."""

MAX_PARAMETERS = 64
"""Parameters in a query string. Thousands of short ones would take ten times as long to parse as a single long one."""

PLAIN = frozenset({b"", b"identity"})
"""Content codings that leave a body as it is. No other is decoded, since a small body could become a large one."""

JSON_TYPE: Header = (b"content-type", b"application/json")
NOSNIFF: Header = (b"x-content-type-options", b"nosniff")

NO_STORE: tuple[Header, ...] = ((b"cache-control", b"no-store"),)
"""Header of answers that caches must not store: they are only for clients that know an id, or are true only now."""


def receive_all(scope: Scope, receive: Receive) -> Receive:
    """Return `receive` for an application that reads the body by itself, from the message already requested on."""
    requested: list[Awaitable[ASGIMessage]] = [scope[FIRST_MESSAGE]] if FIRST_MESSAGE in scope else []

    async def receive_next() -> ASGIMessage:
        return await (requested.pop() if requested else receive())

    return receive_next


async def until_disconnected(receive: Receive) -> None:
    """Return when the client is gone, or sends more of a body, which nobody reads and which would not be counted."""
    while (message := await receive())["type"] != "http.disconnect" and not message.get("body"):
        pass


class Disconnected(Exception):
    """The client went away before its request was complete, so there is nobody to answer."""


class Request:
    """One request. It is cheap to create: values are read from the ASGI scope only when they are used."""

    __slots__ = (
        "_body",
        "_has_ended",
        "_is_read",
        "_query",
        "answer_headers",
        "client",
        "cost",
        "deadlines",
        "first_headers",
        "has_waited",
        "id",
        "is_head",
        "method",
        "params",
        "path",
        "receive",
        "scope",
        "size",
        "turn",
    )

    def __init__(
        self, scope: Scope, receive: Receive, client: str, request_id: str, deadlines: Deadlines, turn: RequestTurn
    ) -> None:
        self.scope = scope
        self.receive = receive
        self.deadlines = deadlines
        self.turn = turn
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.is_head = False
        """Whether this GET was sent as HEAD, so that its answer is sent without the body."""
        self.client = client
        """The client's address as limits count it: an IPv4 address, or the /64 of an IPv6 address."""
        self.id = request_id
        self.params: dict[str, str] = {}
        """Path parameters, by their names in the route's path."""
        self.answer_headers: list[Header] = []
        """Headers that the answer gets whatever its status: limits, replays."""
        self.size = 0
        """Bytes of the body that were read, including bytes that were read only to be dropped."""
        self.cost = 0
        """Cost of this request besides its body and answer, in bytes of an answer."""
        self.has_waited = False
        """Whether the request waited for news, as its client asked. If so, its duration says nothing about the node."""
        self._query: dict[str, str] | None = None
        self._body: bytes | None = None
        self._is_read = False
        """Whether reading of the body has begun. The body can be read only once."""
        self._has_ended = False
        """Whether the end of the body has arrived, or the client has gone away."""
        self.first_headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        """The value of the first header of each name. Names are in lower case."""

    def add_cost(self, size: int) -> None:
        """Add to `cost`, for code that needs a function to call."""
        self.cost += size

    def header(self, name: bytes) -> str | None:
        """Return the first header with this name (in lower case), or None."""
        value = self.first_headers.get(name)
        return None if value is None else value.decode("latin-1")

    def repeats(self, name: bytes) -> bool:
        """Return whether there is more than one header with this name (in lower case)."""
        headers = self.scope["headers"]
        return len(self.first_headers) != len(headers) and [key for key, _ in headers].count(name) > 1

    def headers(self, name: bytes) -> list[str]:
        """Return every header with this name (in lower case), in order."""
        return [value.decode("latin-1") for key, value in self.scope["headers"] if key == name]

    def query(self) -> dict[str, str]:
        """Return the query parameters, parsed once (by `parameters_of`, which may raise Invalid)."""
        if self._query is None:
            self._query = parameters_of(self.scope["query_string"])
        return self._query

    async def body(self) -> bytes:
        """Return the whole body.

        Raises Refused:

        - `body.too_large`, by its Content-Length or while reading;
        - `body.encoded` if it is compressed;
        - `body.coding` for a Transfer-Encoding other than chunked;
        - `body.stalled` if no byte comes for BODY_STALL_SECONDS, or the body is slower than MIN_BODY_RATE;
        - `body.incomplete` if the client ends it early;
        - `limit.waiting` if the process holds too many bytes of unfinished bodies from the client or its site;
        - `store.busy` if too many clients send large bodies.
        """
        if self._body is None:
            if self.first_headers.get(b"content-encoding", b"").lower() not in PLAIN:
                raise Refused("body.encoded")
            self._body = await self._read()
            if self.size >= LARGE_BODY:
                await self.turn.before_step(self.size)
        return self._body

    @property
    def is_unread(self) -> bool:
        """Whether the headers announce a body whose end has not arrived."""
        return not self._has_ended and (
            self.first_headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in self.first_headers
        )

    async def discard_body(self) -> bool:
        """Read and drop a body that no handler has read, so that the next request on the connection can be read.

        Returns False if the connection has to be closed instead: the body is too large, has been read in part, does not
        arrive, or is sent only on demand (`Expect`).
        """
        if self._is_read or b"expect" in self.first_headers:
            return False
        try:
            await self._read()
        except Refused:
            return False
        return True

    def forget_body(self) -> None:
        """Free the body: the answer is a stream, which may last for a quarter of an hour."""
        self._body = b""
        if self._is_read:
            self.scope.pop(FIRST_MESSAGE, None)

    def noting_end(self, receive: Receive) -> Receive:
        """Return `receive` for an application that reads the body by itself; the request notes the end of the body."""

        async def receive_next() -> ASGIMessage:
            message = await receive()
            self._has_ended = self._has_ended or not message.get("more_body", False)
            return message

        return receive_next

    async def while_waiting(self, seconds: float, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`, which waits up to `seconds` for a change. Cancel `work` if the client goes away.

        The request keeps its turn, except while `work` is `paused` (`node.common.pauses`). Raises Disconnected, Refused
        `limit.waiting` if too many requests of the client or its site wait in this process, and whatever `body` raises
        if the body has not been read yet.
        """
        if not seconds:
            return await work
        self.has_waited = True
        with WaitingPlaces(self.client) as places:
            try:
                if self.is_unread:
                    await self._read()
                places.take(self.size, requests=1, retry_after=seconds)
            except BaseException:
                work.close()
                raise
            context = copy_context()
            context.run(PAUSE.set, self.turn.pause)
            task = asyncio.get_running_loop().create_task(work, context=context)
            gone = asyncio.ensure_future(until_disconnected(self.noting_end(self.receive)))
            if not await ended_before(task, gone):
                raise Disconnected
            return task.result()

    async def _read(self) -> bytes:
        self._is_read = True
        length = self.first_headers.get(b"content-length", b"")
        announced = int(length) if length.isdigit() else self._unknown_length()
        if MAX_BODY_BYTES < announced < math.inf:
            raise Refused("body.too_large")
        if not announced:
            return b""
        requested: asyncio.Future[ASGIMessage] | None = self.scope.get(FIRST_MESSAGE)
        if requested is not None and requested.done():  # it is here already
            message = requested.result()
        else:
            message = await self._next(requested or self.receive(), monotonic() + BODY_STALL_SECONDS)
        chunk: bytes = message.get("body", b"")
        if len(chunk) == announced:  # most bodies; Granian would report the end with another, empty message
            self.size = len(chunk)
            self._has_ended = True
            return chunk
        return await self._rest(message, announced)

    def _unknown_length(self) -> float:
        """Return the length of a body without Content-Length: infinity. Raises Refused `body.coding`.

        Granian's parser decodes `chunked` if it is the last coding, and drops a Content-Length next to it. It does not
        decode any other coding.
        """
        codings = [value.lower() for name, value in self.scope["headers"] if name == b"transfer-encoding"]
        if codings not in ([], [b"chunked"]):
            raise Refused("body.coding")
        return math.inf

    async def _rest(self, message: ASGIMessage, announced: float) -> bytes:
        """Return the whole body; `message` has its first piece."""
        chunks: list[bytes] = []
        began = monotonic()
        with WaitingPlaces(self.client) as places:
            while True:
                if message["type"] == "http.disconnect":
                    raise Refused("body.incomplete")
                chunk: bytes = message.get("body", b"")
                chunks.append(chunk)
                self.size += len(chunk)
                self.cost += PIECE_COST
                if self.size > MAX_BODY_BYTES:
                    raise Refused("body.too_large")
                if self.size == announced or not message.get("more_body", False):
                    self._has_ended = True
                    return b"".join(chunks)
                places.take(self.size)
                deadline = min(monotonic(), began + self.size / MIN_BODY_RATE) + BODY_STALL_SECONDS
                message = await self._next(self.receive(), deadline)

    async def _next(self, message: Awaitable[ASGIMessage], deadline: float) -> ASGIMessage:
        """Return the next message of the body. Raises Refused `body.stalled`."""
        try:
            async with self.turn.pause():
                return await self.deadlines.by(deadline, message)
        except TimeoutError:
            raise Refused("body.stalled") from None


def parameters_of(query: bytes) -> dict[str, str]:
    """Return the parameters of a query string. The last value of a repeated name wins.

    Raises Invalid for bad UTF-8, and for more than MAX_PARAMETERS.
    """
    if not query:
        return {}
    if query.count(b"&") >= MAX_PARAMETERS:
        what = f"the query string has more than {MAX_PARAMETERS} parameters"
        raise Invalid([Issue(("query",), what, "value_error")])
    try:
        # Not only ASCII: browsers escape all other characters, but curl and similar clients send them as typed.
        return dict(parse_qsl(query.decode(), keep_blank_values=True, errors="strict"))
    except ValueError:  # UnicodeDecodeError is one
        raise Invalid([Issue(("query",), "the query string is not valid UTF-8", "value_error")]) from None


class Response:
    """A status, a body and headers. `node.web.responder` adds the headers that every answer has."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, body: bytes, headers: Sequence[Header] = (JSON_TYPE,)) -> None:
        self.status = status
        self.body = body
        self.headers = headers


Handler = Callable[[Request], Awaitable[Response]]
Fault = Callable[[Request, Exception], Response]

_encode = msgspec.json.Encoder().encode


def json_response(value: object, status: int = 200, headers: Iterable[Header] = ()) -> Response:
    """Return an answer with `value` as JSON."""
    return Response(status, _encode(value), (JSON_TYPE, *headers))


def created(value: object, location: str, headers: Iterable[Header] = ()) -> Response:
    """Return 201 with `value` as JSON, and the address of what was created."""
    return Response(201, _encode(value), (JSON_TYPE, (b"location", location.encode("latin-1")), *headers))
