"""One HTTP request and one answer, as every handler of the node takes and returns them.

A handler is `async def handler(request: Request) -> Response`. `node.web.dispatch` finds it, and sends what it returns.
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
"""Scope key under which `node.overload.intake` stores the first message of the body, which it has already requested."""

MAX_BODY_BYTES = 1024 * 1024
"""Size of a request body (SPEC 8)."""

BODY_STALL_SECONDS = 5.0
"""Longest time without a byte of the body, after which the request gets 408. Granian has no such deadline."""

MIN_BODY_RATE = 16 * 1024
"""Bytes a second that a body must bring besides, so that a byte now and then does not keep a connection."""

PIECE_COST = 320
"""Cost of each piece of a body that comes in several, in bytes of an answer (16 µs): in chunks of one byte, a MiB takes
14 s."""

MAX_PARAMETERS = 64
"""Parameters of a query string. Thousands of short ones would take ten times as long as one of the same size."""

PLAIN = frozenset({b"", b"identity"})
"""Content codings that leave a body as it is. No other is decoded, since a small body could become a large one."""

JSON_TYPE: Header = (b"content-type", b"application/json")
NOSNIFF: Header = (b"x-content-type-options", b"nosniff")

NO_STORE: tuple[Header, ...] = ((b"cache-control", b"no-store"),)
"""Header of answers that caches must not keep: they are for whoever knows an id, or true only now."""


def receive_all(scope: Scope, receive: Receive) -> Receive:
    """`receive` for an application that reads the body by itself; begins with the message requested already."""
    requested: list[Awaitable[ASGIMessage]] = [scope[FIRST_MESSAGE]] if FIRST_MESSAGE in scope else []

    async def receive_next() -> ASGIMessage:
        return await (requested.pop() if requested else receive())

    return receive_next


async def until_disconnected(receive: Receive) -> None:
    """Return when the client has gone away, or sends more of a body that nobody reads, which would count nowhere."""
    while (message := await receive())["type"] != "http.disconnect" and not message.get("body"):
        pass


class Disconnected(Exception):
    """The client has gone away before its request was complete, so there is nobody to answer."""


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
        """Whether this GET was sent as HEAD: its answer is sent without the body."""
        self.client = client
        """The client's address as limits count it: an IPv4 address, or the /64 of an IPv6 address."""
        self.id = request_id
        self.params: dict[str, str] = {}
        """Path parameters, by the names in the route's path."""
        self.answer_headers: list[Header] = []
        """Headers that the answer will have whatever its status is: limits, replays."""
        self.size = 0
        """Bytes of the body that were read, even if only to drop them."""
        self.cost = 0
        """What this request costs besides its body and answer, in bytes of an answer."""
        self.has_waited = False
        """Whether it waited for news, as its client asked. Then its duration says nothing about the node."""
        self._query: dict[str, str] | None = None
        self._body: bytes | None = None
        self._is_read = False
        """Whether somebody has begun to read the body, which is possible only once."""
        self._has_ended = False
        """Whether the end of the body has come, or the client has gone away."""
        self.first_headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        """The value of the first header of each name, in lower case."""

    def add_cost(self, size: int) -> None:
        """Add to `cost`; for code that is given a function to call."""
        self.cost += size

    def header(self, name: bytes) -> str | None:
        """The first header of that name (lower case), or None."""
        value = self.first_headers.get(name)
        return None if value is None else value.decode("latin-1")

    def repeats(self, name: bytes) -> bool:
        """Whether there is more than one header of that name (lower case)."""
        headers = self.scope["headers"]
        return len(self.first_headers) != len(headers) and [key for key, _ in headers].count(name) > 1

    def headers(self, name: bytes) -> list[str]:
        """Every header of that name (lower case), in order."""
        return [value.decode("latin-1") for key, value in self.scope["headers"] if key == name]

    def query(self) -> dict[str, str]:
        """The query parameters, read once; the last one of a repeated name. Raises Invalid (`parameters_of`)."""
        if self._query is None:
            self._query = parameters_of(self.scope["query_string"])
        return self._query

    async def body(self) -> bytes:
        """The whole body.

        Raises Refused `body.too_large` by its Content-Length or while reading, `body.encoded` for a compressed one,
        `body.coding` for a Transfer-Encoding other than chunked, `body.stalled` for one that stops for
        BODY_STALL_SECONDS or is slower than MIN_BODY_RATE, `body.incomplete` if the client ends it early,
        `limit.waiting` if the process holds too much of bodies of the client or its site that are still to come,
        `store.busy` if too many clients send large ones.
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
        """Whether the headers announce a body whose end has not come."""
        return not self._has_ended and (
            self.first_headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in self.first_headers
        )

    async def discard_body(self) -> bool:
        """Read and drop a body that no handler has read, so that the next request on the connection can be read.

        Returns False if the connection has to be closed instead: the body is too large, was read in part, does not
        come, or is sent only on demand (`Expect`).
        """
        if self._is_read or b"expect" in self.first_headers:
            return False
        try:
            await self._read()
        except Refused:
            return False
        return True

    def forget_body(self) -> None:
        """Keep the body no longer: a stream answers the request, and may last for a quarter of an hour."""
        self._body = b""
        if self._is_read:
            self.scope.pop(FIRST_MESSAGE, None)

    def noting_end(self, receive: Receive) -> Receive:
        """`receive` for an application that reads the body by itself: records here when the body has ended."""

        async def receive_next() -> ASGIMessage:
            message = await receive()
            self._has_ended = self._has_ended or not message.get("more_body", False)
            return message

        return receive_next

    async def while_waiting(self, seconds: float, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, which waits for a change for up to `seconds`; cancelled if the client goes away.

        The request keeps its turn, except where `work` is `paused`. Raises Disconnected, Refused `limit.waiting` if
        too many requests of the client or its site wait in this process, and what `body` does, for one not yet read.
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
        if requested is not None and requested.done():  # taking it costs no wait
            message = requested.result()
        else:
            message = await self._next(requested or self.receive(), monotonic() + BODY_STALL_SECONDS)
        chunk: bytes = message.get("body", b"")
        if len(chunk) == announced:  # most bodies; Granian would report their end by another, empty message
            self.size = len(chunk)
            self._has_ended = True
            return chunk
        return await self._rest(message, announced)

    def _unknown_length(self) -> float:
        """The length of a body without Content-Length: infinity. Raises Refused `body.coding`.

        Granian's parser decodes `chunked` if it is the last coding, and drops a Content-Length beside it. It leaves all
        other codings on the body.
        """
        codings = [value.lower() for name, value in self.scope["headers"] if name == b"transfer-encoding"]
        if codings not in ([], [b"chunked"]):
            raise Refused("body.coding")
        return math.inf

    async def _rest(self, message: ASGIMessage, announced: float) -> bytes:
        """The whole body, whose first piece is in `message`."""
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
        """The next piece of the body. Raises Refused `body.stalled`."""
        try:
            async with self.turn.pause():
                return await self.deadlines.by(deadline, message)
        except TimeoutError:
            raise Refused("body.stalled") from None


def parameters_of(query: bytes) -> dict[str, str]:
    """The parameters of a query string; the last one of a repeated name.

    Raises Invalid for bad UTF-8, and for more than MAX_PARAMETERS.
    """
    if not query:
        return {}
    if query.count(b"&") >= MAX_PARAMETERS:
        what = f"the query string has more than {MAX_PARAMETERS} parameters"
        raise Invalid([Issue(("query",), what, "value_error")])
    try:
        # Not ASCII alone: browsers escape all else, but curl and the like send it as it was typed.
        return dict(parse_qsl(query.decode(), keep_blank_values=True, errors="strict"))
    except ValueError:  # UnicodeDecodeError is one
        raise Invalid([Issue(("query",), "the query string is not valid UTF-8", "value_error")]) from None


class Response:
    """A status, a body and its headers; `node.web.responder` adds the headers that every answer has."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, body: bytes, headers: Sequence[Header] = (JSON_TYPE,)) -> None:
        self.status = status
        self.body = body
        self.headers = headers


Handler = Callable[[Request], Awaitable[Response]]
Fault = Callable[[Request, Exception], Response]

_encode = msgspec.json.Encoder().encode


def json_response(value: object, status: int = 200, headers: Iterable[Header] = ()) -> Response:
    """`value` as JSON."""
    return Response(status, _encode(value), (JSON_TYPE, *headers))


def created(value: object, location: str, headers: Iterable[Header] = ()) -> Response:
    """201 with `value` as JSON, and the address of what was created."""
    return Response(201, _encode(value), (JSON_TYPE, (b"location", location.encode("latin-1")), *headers))
