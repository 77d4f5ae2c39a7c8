"""Answers whose body is made while it is sent, and the rules that all streams share: how long they last, what keeps
them open, and that they end when their client is gone."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

from node.common.cancellation import ended_before
from node.common.refusal import Refused
from node.store.errors import StoreUnavailable
from node.store.limits import Quota
from node.web.http import Header, Request, Response, Send, until_disconnected
from node.web.limits import Limiter

HEARTBEAT_SECONDS = 15.0
"""Longest silence on a stream: load balancers and proxies cut a silent connection, most of them after 60 s."""

SEND_SECONDS = 30.0
"""Timeout for the client to read one piece."""

PIECE_BYTES = 32 * 1024
"""Larger pieces are sent in parts. A connection buffers about seven parts for a client that does not read, whatever
their size: four wait, one is about to be written, and Granian has taken one or two."""

STREAM_SECONDS = 900.0
"""How long a stream that its client can resume lasts. Reconnecting spreads streams over the processes."""

PLACE_MS = int(STREAM_SECONDS * 1000) + 60_000
"""How long a stream counts for its client, in milliseconds, if the process that serves it dies."""

STREAM_HEADERS: tuple[Header, ...] = (
    (b"cache-control", b"no-cache, no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
)
"""Keep caches and proxies from holding back parts of a stream."""

EVENT_STREAM: Header = (b"content-type", b"text/event-stream")


Piece = Callable[[bytes], Awaitable[None]]
"""Sends one piece of a body, and returns when the connection has room for more."""

SENT = "PyEmptyAwaitable"
"""Name of the type that Granian's `send` returns if the connection took the message during the call, in which case the
result need not be awaited. The name is compared because Granian does not export the type."""


class BodySender:
    """Sends the pieces of one body. It can be used as a Piece."""

    __slots__ = ("_send",)

    def __init__(self, send: Send) -> None:
        self._send = send

    async def __call__(self, piece: bytes) -> None:
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    def begin(self, piece: bytes) -> asyncio.Future[None] | None:
        """Begin to send a piece. Return None if the connection has taken it; else a future to await before the next
        piece."""
        sending = self._send({"type": "http.response.body", "body": piece, "more_body": True})
        return None if type(sending).__name__ == SENT else asyncio.ensure_future(sending)


async def send_in_time(piece: bytes, send: Piece) -> None:
    """Send a piece in parts of PIECE_BYTES. Raises TimeoutError if the client does not read a part within
    SEND_SECONDS."""
    for start in range(0, len(piece), PIECE_BYTES):
        async with asyncio.timeout(SEND_SECONDS):
            await send(piece[start : start + PIECE_BYTES])


def one_line(json: bytes) -> bytes:
    """Return the JSON without line breaks, as server-sent events and JSON lines need it.

    JSON from clients is kept as it came, and is often indented. In JSON, CR and LF occur only between two tokens. The
    line breaks that only Unicode defines occur only in strings; they are escaped, because Python's `str.splitlines`,
    which httpx uses to read lines, ends a line at each of them.
    """
    json = json.replace(b"\r", b" ").replace(b"\n", b" ")
    if json.isascii():
        return json
    for character in "\x85\u2028\u2029":
        json = json.replace(character.encode(), b"\\u%04x" % ord(character))
    return json


class Streaming(Response):
    """An answer whose body is made while it is sent: `run` makes and sends the pieces until the client is gone.

    `end` gives back what was taken for the answer. It is called exactly once, even if no body is sent: after HEAD, or
    if the client is gone before the first piece.
    """

    __slots__ = ("end", "run")

    def __init__(
        self,
        run: Callable[[BodySender], Coroutine[Any, Any, None]],
        headers: Sequence[Header],
        end: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(200, b"", headers)
        self.run = run
        self.end = end

    async def send_body(self, request: Request, send: Send) -> None:
        """Send the body; for HEAD, only the end of the body. Raises what `run` raises."""
        if not request.is_head:
            running = asyncio.ensure_future(self.run(BodySender(send)))
            await ended_before(running, asyncio.ensure_future(until_disconnected(request.noting_end(request.receive))))
            if not running.cancelled():
                running.result()
        await send({"type": "http.response.body", "body": b""})


async def hold_place(limiter: Limiter, request: Request, kind: str, taken: float, ends: AsyncExitStack) -> None:
    """Take a place among the streams of a client until `ends` is closed. Raises as `Permit.hold` does.

    `kind`: the kind of stream, which the operator sees together with the client. `taken`: the share of this process'
    streams that other streams have (`StreamCount.taken`).
    """

    async def release() -> None:
        with suppress(StoreUnavailable):  # if this fails, the place counts until its time is over
            await limiter.release(place)

    async with limiter.permit(request, "stream") as permit:
        name = await permit.hold(PLACE_MS, f"{kind} {request.client} ", taken=taken)
        place = Quota("stream", request.client, name)
    ends.push_async_callback(release)


class StreamCount:
    """Counts the streams of one kind in this process, including those that are about to begin."""

    def __init__(self) -> None:
        self._count = 0

    def opening(self, most: int) -> AsyncExitStack:
        """Count a stream until the stack is closed. Raises Refused `store.busy` if there are `most` already."""
        if self._count >= most:
            raise Refused("store.busy", retry_after=5)
        self._count += 1
        counted = AsyncExitStack()
        counted.callback(self._end)
        return counted

    def taken(self, most: int) -> float:
        """Return the share of `most` that the other streams have, for a stream that is about to begin."""
        return (self._count - 1) / most

    def _end(self) -> None:
        self._count -= 1
