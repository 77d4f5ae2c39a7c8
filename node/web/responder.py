"""Sends answers, and adds the headers that every answer has: request id, `nosniff`, CORS, and `Connection: close` where
a body was left unread."""

from collections.abc import Awaitable, Sequence

from node.common import counters
from node.common.cohort import next_stage
from node.web.errors import CLOSE
from node.web.http import NOSNIFF, PIECE_COST, ASGIApp, ASGIMessage, Header, Receive, Request, Response, Send
from node.web.origin import CORS_OPEN, CORS_READABLE, OriginPolicy
from node.web.streams import Streaming
from node.web.throughput import BODY_WEIGHT, FREE_BYTES, Throughput

MOUNTED_BYTES = 512 * 1024
"""Most bytes that an answer of a mounted application counts as: the buffer of a client that reads nothing."""

FAILED_UPLOAD_BYTES = 64 * 1024
"""Fewest bytes that a failed upload counts as: a file of its full size is created and removed, however little
arrived."""

SMALL_PIECE_BYTES = 1024
"""Pieces of an upload that are smaller than this cost as much as pieces of other bodies. No network makes such small
pieces: sent one byte at a time, 60 kB take 5 s."""

UNCOUNTED = frozenset({401, 403, 404, 405, 414, 429})
"""Statuses of refusals that mostly no limit counts. A client gets only so many of them without delay
(`RequestTurn.before_refusal`). Requests with a large body are not delayed, since its bytes have been counted; requests
with an unread body are not delayed either, since they lose their connection."""

BODILESS = (204, 304)
"""Statuses whose answers have no body, and no Content-Length or that of the answer to GET (RFC 9110 §8.6)."""


class Responder:
    """Sends the answers of one process."""

    def __init__(self, restricted: OriginPolicy | None, throughput: Throughput) -> None:
        """`restricted`: decides which pages may call the node; None if every page may."""
        self._restricted = restricted
        self._throughput = throughput

    def answer(self, request: Request, response: Response | None, send: Send) -> Awaitable[None]:
        """Send a handler's answer, which may be a stream. None means that the client has gone away."""
        if response is None:
            return self._leave(request)
        if isinstance(response, Streaming):
            return self.stream(request, response, send)
        return self.respond(request, response, send)

    async def respond(self, request: Request, response: Response, send: Send) -> None:
        """Send an answer."""
        await next_stage()
        size = len(response.body)
        headers = [*response.headers, *request.answer_headers, *self._common(request, response.headers)]
        if size or not _says_length(response):
            headers.append((b"content-length", b"%d" % size))
        if request.is_unread:
            await self._end_body(request, headers)
        if size >= FREE_BYTES or request.size >= FREE_BYTES or request.cost:
            self._count_bytes(request, size)
        if response.status in UNCOUNTED and request.size < FREE_BYTES and not request.is_unread:
            await request.turn.before_refusal()
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})

    async def stream(self, request: Request, response: Streaming, send: Send) -> None:
        """Send an answer whose body is made while it is sent; for HEAD, only its headers."""
        headers = [*response.headers, *request.answer_headers, *self._common(request, response.headers)]

        def send_counted(message: ASGIMessage) -> Awaitable[None]:
            self._throughput.add(request.client, len(message["body"]))
            return send(message)  # not awaited: its type says whether the connection had room (`BodySender.begin`)

        try:
            if request.is_unread:
                await self._end_body(request, headers)
            request.forget_body()
            await send({"type": "http.response.start", "status": response.status, "headers": headers})
            await response.send_body(request, send_counted)
        finally:
            await response.end()
            self._count_bytes(request, 0)

    async def mount(self, application: ASGIApp, request: Request, receive: Receive, send: Send) -> None:
        """Let a mounted application answer. It sets all headers except the request id and, if pages are restricted,
        CORS.

        The turn of the request ends at once, since uploads and downloads take long; the application has its own turns.
        If the request fails, its body counts like an answer, because nothing else limits how often it is sent. Small
        pieces are counted as they arrive; once there are too many, the application's `receive` raises Refused
        `limit.throughput`.
        """
        request.turn.end()
        left, received, is_kept, pieces_cost = MOUNTED_BYTES, 0, False, 0

        async def receive_on() -> ASGIMessage:
            nonlocal received, pieces_cost
            message = await receive()
            received += (size := len(message.get("body", b"")))
            if size < SMALL_PIECE_BYTES:
                pieces_cost += PIECE_COST
                if pieces_cost >= FREE_BYTES:
                    self._throughput.add(request.client, pieces_cost)
                    pieces_cost = 0
                    if refused := self._throughput.refusal(request.client):
                        raise refused
            return message

        async def send_on(message: ASGIMessage) -> None:
            nonlocal left, is_kept
            if message["type"] == "http.response.start":
                is_kept = message["status"] < 300
                counters.MOUNTED.add(message["status"])
                headers: list[Header] = [*message["headers"], (b"x-request-id", request.id.encode())]
                if self._restricted:
                    headers = [each for each in headers if each != CORS_OPEN] + [*self._restricted.headers(request)]
                if request.is_unread:
                    await self._end_body(request, headers)
                message["headers"] = headers
            else:
                size = min(len(message.get("body", b"")), left)
                left -= size
                self._throughput.add(request.client, size)
            await send(message)

        try:
            await application(request.scope, request.noting_end(receive_on), send_on)
        finally:
            self._count_bytes(request, 0)  # for bytes that `_end_body` read and dropped
            if not is_kept:
                least = FAILED_UPLOAD_BYTES if request.method == "PUT" else 0
                self._throughput.add(request.client, max(received, least))

    async def _leave(self, request: Request) -> None:
        """Count the body and the cost of a request whose client did not wait for the answer."""
        self._count_bytes(request, 0)

    def _common(self, request: Request, headers: Sequence[Header]) -> tuple[Header, ...]:
        """Return the headers that every answer gets in addition to its own `headers`."""
        request_id: Header = (b"x-request-id", request.id.encode())
        for name, _ in headers:
            if name == b"access-control-allow-origin":
                return request_id, NOSNIFF
        if self._restricted:
            return request_id, NOSNIFF, *self._restricted.headers(request)
        # The list of headers that scripts may read is as long as all other headers together; only browsers send Origin.
        if request.header(b"origin") is not None:
            return request_id, NOSNIFF, *CORS_READABLE
        return request_id, NOSNIFF, CORS_OPEN

    async def _end_body(self, request: Request, headers: list[Header]) -> None:
        """Read the body that no handler has read, before the answer is sent, or add `Connection: close`.

        Granian closes a connection with an unread body without announcing that, so the client's next request on it
        would be lost. The body of a client that has moved too many bytes already is not read.
        """
        if CLOSE not in headers and (self._throughput.refusal(request.client) or not await request.discard_body()):
            headers.append(CLOSE)

    def _count_bytes(self, request: Request, size: int) -> None:
        """Count the bytes of the request's body and of its answer (`size`), and the other costs of the request."""
        self._throughput.add(request.client, request.size, BODY_WEIGHT)
        self._throughput.add(request.client, size + request.cost)


def _says_length(response: Response) -> bool:
    """Return whether an answer without a body needs no Content-Length added: its status forbids one, or it already has
    one."""
    return response.status in BODILESS or any(name == b"content-length" for name, _ in response.headers)


def without_body(send: Send) -> Send:
    """Return `send` for the answer to HEAD: it drops the body."""

    async def send_on(message: ASGIMessage) -> None:
        if message["type"] == "http.response.body":
            message = {"type": "http.response.body", "body": b"", "more_body": message.get("more_body", False)}
        await send(message)

    return send_on


def closing(send: Send) -> Send:
    """Return `send` for the last answer on a connection: it adds `Connection: close`."""

    async def send_on(message: ASGIMessage) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], CLOSE]
        await send(message)

    return send_on
