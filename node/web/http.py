"""One HTTP request and one response, as every handler of the node sees them.

A handler is `async def handler(request: Request) -> Response`. Hot routes are called by
`node.web.front` straight from ASGI, all others through Litestar's router; the handler cannot tell.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, MutableMapping, Sequence
from time import monotonic
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qsl

import msgspec

from node.common.refusal import Invalid, Issue, Refused
from node.web.deadline import Deadlines

T = TypeVar("T")

Scope = MutableMapping[str, Any]
ASGIMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[ASGIMessage]]
Send = Callable[[ASGIMessage], Awaitable[None]]
Header = tuple[bytes, bytes]

WORK = "relay.work"
"""Where in the scope `node.overload.intake` leaves what a request counts in while it is worked on."""

FIRST = "relay.first"
"""Where in the scope `node.overload.intake` leaves the first message of the body, for which it has asked already."""

BODY_LIMIT = 1024 * 1024
"""Bytes of a request body (SPEC 8)."""

BODY_STALL = 5.0
"""Seconds without a byte of the body before the request ends with 408. Granian has no such deadline."""

BODY_RATE = 16 * 1024
"""Bytes a second that a body must bring after that time: a byte now and then must not hold a connection."""

PLAIN = frozenset({b"", b"identity"})
"""Content codings that leave a body as it is. No other is undone: a small body could become a large one."""

CLIENT_WAITING = 2048
"""Requests of one client that a process holds for `wait=`: a quarter of all that it holds (RELAY_MAX_WAITING)."""

WAITING: Counter[str] = Counter()
"""How many each client has waiting in this process."""

JSON_TYPE = (b"content-type", b"application/json")

NO_STORE = ((b"cache-control", b"no-store"),)
"""Of answers for those only who know an id: no cache on the way keeps them."""


class Asked(Protocol):
    """A message that the server was asked for: it may be there before anybody awaits it, and then costs no wait."""

    def done(self) -> bool: ...

    def result(self) -> ASGIMessage: ...

    def __await__(self) -> Generator[Any, Any, ASGIMessage]: ...


def receive_all(scope: Scope, receive: Receive) -> Receive:
    """`receive` for an app that reads by itself: it begins with the message that has been asked for already."""
    asked: list[Awaitable[ASGIMessage]] = [scope[FIRST]] if FIRST in scope else []

    async def receive_next() -> ASGIMessage:
        return await (asked.pop() if asked else receive())

    return receive_next


class Disconnected(Exception):
    """The client went away before its request was complete; nobody is left to answer."""


class Request:
    """One request. Cheap to make: everything is read from the ASGI scope when asked for."""

    __slots__ = (
        "_body",
        "_ended",
        "_reading",
        "client",
        "deadlines",
        "id",
        "method",
        "named",
        "notes",
        "params",
        "path",
        "receive",
        "scope",
    )

    def __init__(self, scope: Scope, receive: Receive, client: str, request_id: str, deadlines: Deadlines) -> None:
        self.scope = scope
        self.receive = receive
        self.deadlines = deadlines
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.client = client
        """The client's address as limits count it: IPv4, or the /64 of an IPv6."""
        self.id = request_id
        self.params: dict[str, str] = {}
        """Path parameters, by the names in the route's path."""
        self.notes: list[Header] = []
        """Headers that the response will carry whatever its status: limits, replays."""
        self._body: bytes | None = None
        self._reading = False
        """Whether somebody has begun to read the body; only one can."""
        self._ended = False
        """Whether all of the body has come, read or not."""
        self.named: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        """The first header of each (lower-case) name."""

    @property
    def is_head(self) -> bool:
        """Whether this GET came as HEAD: its answer goes out without its body."""
        return "relay.head" in self.scope

    def header(self, name: bytes) -> str | None:
        """The first header of that (lower-case) name, or None."""
        value = self.named.get(name)
        return None if value is None else value.decode("latin-1")

    def repeats(self, name: bytes) -> bool:
        """Whether there is more than one header of that (lower-case) name."""
        headers = self.scope["headers"]
        return len(self.named) != len(headers) and [key for key, _ in headers].count(name) > 1

    def headers(self, name: bytes) -> list[str]:
        """Every header of that (lower-case) name, in order."""
        return [value.decode("latin-1") for key, value in self.scope["headers"] if key == name]

    def query(self) -> dict[str, str]:
        """The query parameters; of a repeated name the last. Raises Invalid on bad UTF-8."""
        raw: bytes = self.scope["query_string"]
        if not raw:
            return {}
        try:
            return dict(parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict"))
        except (UnicodeDecodeError, ValueError):
            raise Invalid([Issue(("query",), "the query string is not valid UTF-8", "value_error")]) from None

    async def body(self) -> bytes:
        """The whole body.

        Raises Refused `body.too_large` from Content-Length or while reading, `body.encoded` for one that
        is compressed, `body.coding` for another Transfer-Encoding than chunked, `body.stalled` after BODY_STALL
        seconds without progress or below BODY_RATE, `body.incomplete` when a client stops half-way.
        """
        if self._body is None:
            if self.named.get(b"content-encoding", b"").lower() not in PLAIN:
                raise Refused("body.encoded")
            self._body = await self._read()
        return self._body

    @property
    def size(self) -> int:
        """Bytes of the body that were read for a handler."""
        return len(self._body) if self._body else 0

    @property
    def is_unread(self) -> bool:
        """Whether a body was announced of which the end has not come."""
        return not self._ended and (
            self.named.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in self.named
        )

    async def read_off(self) -> bool:
        """Take the body that no handler wanted off the connection, which can only then bring another request.

        False if that failed, or is not tried: of a body that is too large, was read in part, or which the client sends
        only when it is asked to (`Expect`). Then the connection has to be closed.
        """
        if self._reading or b"expect" in self.named:
            return False
        try:
            await self._read()
        except Refused:
            return False
        return True

    def end_of(self, receive: Receive) -> Receive:
        """`receive` for an app that reads by itself, noting here when the body has come to its end."""

        async def receive_next() -> ASGIMessage:
            message = await receive()
            self._ended = self._ended or not message.get("more_body", False)
            return message

        return receive_next

    async def while_waiting(self, seconds: float, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gives, which may take `seconds`; given up when the client goes away.

        Raises Disconnected, and Refused `limit.waiting` if the client has too many such requests waiting here.
        """
        if not seconds:
            return await work
        if WAITING[self.client] >= CLIENT_WAITING:
            work.close()
            raise Refused("limit.waiting", retry_after=seconds, most=CLIENT_WAITING)
        WAITING[self.client] += 1
        task = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(self._gone())
        self._rests(1)
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Disconnected
            return task.result()
        finally:
            self._rests(-1)
            WAITING[self.client] -= 1
            if not WAITING[self.client]:
                del WAITING[self.client]
            for each in (task, gone):
                each.cancel()

    def _rests(self, change: int) -> None:
        """Tell admission control that this request now waits for news or its client (1), or no more (-1)."""
        generation = self.scope.get(WORK)
        if generation is not None:
            generation.left += change

    async def _gone(self) -> None:
        receive = self.end_of(self.receive)
        while (await receive())["type"] != "http.disconnect":
            pass

    async def _read(self) -> bytes:
        self._reading = True
        named = self.named.get(b"content-length", b"")
        announced = int(named) if named.isdigit() else self._unannounced()
        if BODY_LIMIT < announced < math.inf:
            raise Refused("body.too_large")
        if not announced:
            return b""
        asked: Asked | None = self.scope.get(FIRST)
        if asked is not None and asked.done():
            message = asked.result()
        else:
            message = await self._next(asked or self.receive(), monotonic() + BODY_STALL)
        chunk: bytes = message.get("body", b"")
        if len(chunk) == announced:  # the usual body; that this was all would be a further message
            self._ended = True
            return chunk
        return await self._rest(message, announced)

    def _unannounced(self) -> float:
        """The length of a body that says none. Raises Refused `body.coding`.

        The parser undoes `chunked` where it comes last, and drops a Content-Length beside it; whatever else a body is
        said to be coded with is still on it.
        """
        codings = [value.lower() for name, value in self.scope["headers"] if name == b"transfer-encoding"]
        if codings not in ([], [b"chunked"]):
            raise Refused("body.coding")
        return math.inf

    async def _rest(self, message: ASGIMessage, announced: float) -> bytes:
        """The whole body, of which `message` brought the first piece."""
        chunks: list[bytes] = []
        size = 0
        began = monotonic()
        while True:
            if message["type"] == "http.disconnect":
                raise Refused("body.incomplete")
            chunk: bytes = message.get("body", b"")
            chunks.append(chunk)
            size += len(chunk)
            if size > BODY_LIMIT:
                raise Refused("body.too_large")
            if size == announced or not message.get("more_body", False):
                self._ended = True
                return b"".join(chunks)
            deadline = min(monotonic(), began + size / BODY_RATE) + BODY_STALL
            message = await self._next(self.receive(), deadline)

    async def _next(self, message: Awaitable[ASGIMessage], deadline: float) -> ASGIMessage:
        """The next piece of the body. Raises Refused `body.stalled`."""
        self._rests(1)
        try:
            return await self.deadlines.by(deadline, message)
        except TimeoutError:
            raise Refused("body.stalled") from None
        finally:
            self._rests(-1)


class Response:
    """A status, a body and the headers that belong to them; the front adds those of every answer."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, body: bytes, headers: Sequence[Header] = (JSON_TYPE,)) -> None:
        self.status = status
        self.body = body
        self.headers = headers


Piece = Callable[[bytes], Awaitable[None]]
"""Sends one piece of a body; returns when the connection has room for more."""


class Streaming(Response):
    """An answer whose body is made while it is sent: `run` sends it piece by piece."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[[Piece], Awaitable[None]], headers: Sequence[Header]) -> None:
        super().__init__(200, b"", headers)
        self.run = run

    async def send_body(self, send: Send, *, wanted: bool) -> None:
        """Send all of the body, or only its end where it is not wanted (HEAD)."""

        async def send_piece(piece: bytes) -> None:
            await send({"type": "http.response.body", "body": piece, "more_body": True})

        if wanted:
            await self.run(send_piece)
        await send({"type": "http.response.body", "body": b""})


Handler = Callable[[Request], Awaitable[Response]]
Fault = Callable[[Request, Exception], Response]

_encode = msgspec.json.Encoder().encode


def json_response(value: object, status: int = 200, headers: Iterable[Header] = ()) -> Response:
    """`value` as JSON."""
    return Response(status, _encode(value), (JSON_TYPE, *headers))


def created(value: object, location: str) -> Response:
    """201 with the address of what was created."""
    return Response(201, _encode(value), (JSON_TYPE, (b"location", location.encode("latin-1"))))
