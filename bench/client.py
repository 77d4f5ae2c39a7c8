"""A small HTTP/1.1 client for generating load: keep-alive connections from many loopback addresses.

Each connection has at most one request under way. The client finds the end and the status of an answer and parses
nothing more, so that one core of client keeps up with one core of server. load.py decides what to send and when.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, cast

from bench.schedule import SECOND, now

TIMEOUT_NS = 10 * SECOND
MOST_CONNECTIONS = 4096
CONNECT_AT_ONCE = 128
REOPEN_SECONDS = 0.1

# The suite's own statuses for requests that got no answer.
CLOSED: Final = 1
TIMED_OUT: Final = 2
UNANSWERED: Final = 3
NO_ANSWER: Final = {CLOSED: "closed", TIMED_OUT: "timed out", UNANSWERED: "unanswered"}


class Call:
    """One request: its bytes, the kind it is counted under, the expected statuses, and a callback for the answer."""

    __slots__ = ("answered", "due", "expect", "kind", "wire")

    def __init__(
        self,
        wire: bytes,
        kind: str = "",
        expect: tuple[int, ...] = (200,),
        answered: Callable[[int, bytes], None] | None = None,
    ) -> None:
        self.wire = wire
        self.kind = kind
        self.expect = expect
        self.answered = answered
        self.due = 0


class Answer:
    """A complete answer: its status, its body, and its size in bytes on the wire."""

    __slots__ = ("body", "size", "status")

    def __init__(self, status: int, body: bytes, size: int) -> None:
        self.status = status
        self.body = body
        self.size = size


_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)


def http_answer(data: bytes) -> Answer | None:
    """Return the first HTTP/1.1 answer in `data`, or None while it is incomplete (RFC 9112 §6)."""
    head = data.find(b"\r\n\r\n")
    if head < 0:
        return None
    status = int(data[9:12])
    start = head + 4
    length = _LENGTH.search(data, 0, head + 2)
    if length is not None:
        stop = start + int(length[1])
        return Answer(status, data[start:stop], stop) if len(data) >= stop else None
    if _CHUNKED.search(data, 0, head + 2) is None:
        return Answer(status, b"", start)
    body = b""
    while True:
        line = data.find(b"\r\n", start)
        if line < 0:
            return None
        size = int(data[start:line].partition(b";")[0], 16)
        stop = line + 2 + size + 2
        if len(data) < stop:
            return None
        if size == 0:
            return Answer(status, body, stop)
        body += data[line + 2 : stop - 2]
        start = stop


def request(method: str, path: str, body: bytes = b"", content_type: str = "application/json", **headers: str) -> bytes:
    """Return the bytes of a request. Header names are given with `_` in place of `-`."""
    return head(method, path, len(body) if body or method == "POST" else None, content_type, **headers) + body


def head(
    method: str, path: str, length: int | None = None, content_type: str = "application/json", **headers: str
) -> bytes:
    """Return the head of a request, for scenarios whose bodies all have the same length."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    if length is not None:
        lines += [f"Content-Type: {content_type}", f"Content-Length: {length}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def forwarded(wire: bytes, client: str) -> bytes:
    """Return the request as a proxy forwards it, with the client's address in X-Forwarded-For."""
    line, _, rest = wire.partition(b"\r\n")
    return b"%b\r\nX-Forwarded-For: %b\r\n%b" % (line, client.encode("ascii"), rest)


def source_address(index: int) -> str:
    """Return one of the 15.6 million client addresses in the loopback network, from 127.16.0.1 on."""
    high, low = divmod(index % (240 * 256 * 254), 254)
    return f"127.{16 + high // 256}.{high % 256}.{low + 1}"


class Connection(asyncio.Protocol):
    """A keep-alive connection with at most one request under way. It speaks HTTP/1.1; subclasses may override that."""

    __slots__ = ("_buffer", "call", "number", "pool", "sent_at", "transport")

    def __init__(self, pool: "Pool", number: int) -> None:
        self.pool = pool
        self.number = number
        self.transport: asyncio.Transport | None = None
        self.call: Call | None = None
        self.sent_at = 0
        self._buffer = b""

    def greeting(self) -> bytes:
        """Return what is sent before the first request."""
        return b""

    def wire(self, call: Call) -> bytes:
        return call.wire

    def answer(self, data: bytes) -> Answer | None:
        """Return the first answer in `data`, or None while it is incomplete."""
        return http_answer(data)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's transports do not derive from asyncio's
        if greeting := self.greeting():
            self.transport.write(greeting)

    def send(self, call: Call, at: int) -> None:
        assert self.transport is not None
        self.call = call
        self.sent_at = at
        self.pool.under_way += 1
        self.transport.write(self.wire(call))

    def data_received(self, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
        answer = self.answer(data)
        if answer is None:
            self._buffer = data
            return
        self._buffer = data[answer.size :] if answer.size < len(data) else b""
        self._finish(answer.status, answer.body)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self.pool.lost(self)
        self._finish(CLOSED, b"")

    def give_up(self) -> None:
        """Abort a connection whose answer is overdue."""
        call, self.call = self.call, None
        if self.transport is not None:
            self.transport.abort()
        if call is not None:
            self.pool.finished(self, call, TIMED_OUT, b"")

    def _finish(self, status: int, body: bytes) -> None:
        call, self.call = self.call, None
        if call is not None:
            self.pool.finished(self, call, status, body)


class Pool:
    """`size` connections to one server, each from its own address. A lost connection is replaced.

    `done(call, status, body)` is called at the end of every request; status CLOSED or TIMED_OUT means that there was
    no answer. `ready(connection)` is called when a connection is free. Raises ValueError if `size` is out of range;
    entering the context raises OSError if nobody listens.
    """

    def __init__(
        self, host: str, port: int, size: int, *, dialect: type[Connection] = Connection, first_address: int = 0
    ) -> None:
        if not 0 < size <= MOST_CONNECTIONS:
            raise ValueError(f"{size} connections: between 1 and {MOST_CONNECTIONS}")
        self.idle: deque[Connection] = deque()
        self.done: Callable[[Call, int, bytes], None] = lambda _call, _status, _body: None
        self.ready: Callable[[Connection], None] = self.idle.append
        self.under_way = 0
        self._host = host
        self._port = port
        self._size = size
        self._dialect = dialect
        self._first_address = first_address
        self._opened = 0
        self._open: set[Connection] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._closing = False

    async def __aenter__(self) -> Self:
        try:
            while self._opened < self._size:
                batch = min(CONNECT_AT_ONCE, self._size - self._opened)
                await asyncio.gather(*(self._connect() for _ in range(batch)))
        except OSError as failure:  # uvloop's does not name the address
            raise OSError(failure.errno, f"{failure.strerror}: {self._host}:{self._port}") from failure
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        self.done = lambda _call, _status, _body: None
        for task in self._opening:
            task.cancel()
        for connection in list(self._open):
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.sleep(0)

    @property
    def calls(self) -> list[Call]:
        """The requests under way."""
        return [connection.call for connection in self._open if connection.call is not None]

    def expire(self) -> None:
        """Give up on every request that has been under way for more than ten seconds."""
        before = now() - TIMEOUT_NS
        for connection in list(self._open):
            if connection.call is not None and connection.sent_at < before:
                connection.give_up()

    def finished(self, connection: Connection, call: Call, status: int, body: bytes) -> None:
        self.under_way -= 1
        self.done(call, status, body)
        if connection.transport is not None and not connection.transport.is_closing():
            self.ready(connection)

    def lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        if connection.call is None and connection in self.idle:
            self.idle.remove(connection)
        if not self._closing:
            task = asyncio.get_running_loop().create_task(self._replace())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _replace(self) -> None:
        while not self._closing:
            try:
                return await self._connect()
            except OSError:
                await asyncio.sleep(REOPEN_SECONDS)  # refused: retry at a pace that does not load the server
        return None

    async def _connect(self) -> None:
        number = self._first_address + self._opened
        self._opened += 1
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: self._dialect(self, number), self._host, self._port, local_addr=(source_address(number), 0)
        )
        self._open.add(connection)
        self.ready(connection)
