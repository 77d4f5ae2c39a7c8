"""/mcp/sse and /mcp/messages: the HTTP with SSE transport of 2024-11-05. Answers go to a stream opened beforehand.

A POST may reach another process than the one that holds the stream, so answers go through Redis pub/sub, which does
not store them. A stream that may have missed an answer ends, and its client reconnects.
"""

import asyncio
import secrets
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from node.common.refusal import Refused
from node.mcp.json_rpc import RpcError, error_reply
from node.mcp.server import read_messages
from node.mcp.store import StreamStore
from node.mcp.stream_calls import CANCELLED, StreamCalls
from node.mcp.transport import TransportError, cors_of, event, fault, require_json
from node.share.capacity import share_of
from node.share.site import site_of
from node.store import Listener, StoreUnavailable
from node.store.wakeups import MAX_QUEUED_BYTES
from node.web.http import JSON_TYPE, Request, Response
from node.web.limits import Limiter
from node.web.origin import OriginPolicy
from node.web.route import Operation, Route, routes_of
from node.web.streams import (
    EVENT_STREAM,
    HEARTBEAT_SECONDS,
    SEND_SECONDS,
    STREAM_HEADERS,
    BodySender,
    Streaming,
)
from node.web.waiting_places import WaitingPlaces

PATH = "/mcp/sse"
MESSAGES = "/mcp/messages"

MAX_STREAMS = 2000
"""Most open streams of one process, half of the connections that it accepts. Beyond it, the answer is 503."""

MAX_CLIENT_STREAMS = 250
"""Most open streams of one client address in a process; fewer once half of MAX_STREAMS are open (`share_of`)."""

MAX_SITE_STREAMS = 500
"""Most open streams of one IPv6 /48 in a process. It is not SITE_SHARE times MAX_CLIENT_STREAMS, since that would be
all streams."""

PIECE_BYTES = 8 * 1024
"""Size, in bytes, of the parts in which larger events are sent. A connection whose client does not read buffers about
seven parts (see `streams.PIECE_BYTES`), and a site may have 500 such connections."""

COMMENT = b": ping\n\n"


class StreamQuery(msgspec.Struct):
    """The query parameters of POST /mcp/messages."""

    session_id: Annotated[str, Meta(description="Id of the stream, which its endpoint event gave")]


class EventSender:
    """Sends events to one client's stream, and waits while the connection has no room.

    Meanwhile up to MAX_QUEUED_BYTES of further answers may be queued, so the stream takes the `WaitingPlaces` for that
    size. At most 64 streams of a client, and 128 of a site, can therefore be blocked by clients that do not read.
    """

    def __init__(self, client: str, send: BodySender) -> None:
        self._client = client
        self._send = send

    async def __call__(self, event: bytes) -> None:
        """Send an event. Raises TimeoutError if the client does not read, Refused if too many streams are blocked."""
        for start in range(0, len(event), PIECE_BYTES):
            sending = self._send.begin(event[start : start + PIECE_BYTES])
            if sending is None:
                continue
            try:
                with WaitingPlaces(self._client) as places:
                    places.take(MAX_QUEUED_BYTES)
                    async with asyncio.timeout(SEND_SECONDS):
                        await sending
            finally:
                sending.cancel()


class SseApi:
    """The handlers of the HTTP with SSE transport, and the open streams of this process."""

    def __init__(
        self, calls: StreamCalls, streams: StreamStore, limiter: Limiter, origins: OriginPolicy, public_url: str
    ) -> None:
        self._calls = calls
        self._streams = streams
        self._limiter = limiter
        self._origins = origins
        self._endpoint = f"{urlsplit(public_url).path.rstrip('/')}{MESSAGES}?session_id="
        self._open: dict[str, Listener] = {}
        self._streams_of: Counter[str] = Counter()
        """Open streams by client address."""
        self._streams_of_site: Counter[str] = Counter()
        self._ending = False

    @Operation(
        "MCP over server-sent events (2024-11-05): open a stream, whose first event names the URL for messages",
        hot=True,
        media_type="text/event-stream",
        limit="stream",
    )
    async def open(self, request: Request) -> Response:
        cors = cors_of(self._origins, request)
        if self._is_full(request.client):
            raise Refused("store.busy", retry_after=5)
        async with self._limiter.permit(request, "stream") as permit:
            await permit.count()
        stream_id = secrets.token_hex(16)
        await self._streams.keep(stream_id)

        async def end() -> None:
            with suppress(StoreUnavailable):
                await self._streams.close(stream_id)

        return Streaming(partial(self._run, stream_id, request.client), (EVENT_STREAM, *STREAM_HEADERS, *cors), end)

    @Operation(
        "Send a JSON-RPC message for the stream session_id; the reply is sent on that stream",
        hot=True,
        body=object,
        query=StreamQuery,
        asks="session_id=$SESSION_ID",
        example={"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        status=202,
        media_type="text/plain",
        limit="mcp",
    )
    async def post(self, request: Request) -> Response:
        cors = cors_of(self._origins, request)
        require_json(request)
        stream_id = request.query().get("session_id", "")
        if not stream_id:
            raise TransportError(
                400, "Give the session_id that the endpoint event of your stream gave; open a stream at /mcp/sse."
            )
        if not await self._streams.is_open(stream_id):
            raise TransportError(404, "No open stream has this session_id; open a new one at /mcp/sse.")
        try:
            messages = read_messages(await request.body())
        except RpcError as error:
            return Response(400, error_reply(None, error), (JSON_TYPE, *cors))
        if isinstance(messages, list) or messages.request_id is not None:
            await self._calls.begin(stream_id, messages, request)
        elif messages.method == CANCELLED:
            await self._calls.cancel(stream_id, messages.params)
        return Response(202, b"Accepted", ((b"content-type", b"text/plain"), *cors))

    def end(self) -> None:
        """End all streams of this process, and refuse new ones."""
        self._ending = True
        for listener in self._open.values():
            listener.hear(b"")

    async def _run(self, stream_id: str, client: str, send: BodySender) -> None:
        if self._is_full(client):  # other streams were opened since this request was accepted
            return
        counted = ((self._streams_of, client), (self._streams_of_site, site_of(client)))
        for counter, name in counted:
            counter[name] += 1
        try:
            with await self._streams.listen(stream_id) as listener:
                self._open[stream_id] = listener
                # If Redis cannot be reached or the client does not read, the stream ends, and the client reconnects.
                with suppress(StoreUnavailable, TimeoutError, Refused):
                    await self._pass_on(stream_id, listener, EventSender(client, send))
        finally:
            self._open.pop(stream_id, None)
            for counter, name in counted:
                counter[name] -= 1
                if not counter[name]:
                    del counter[name]

    def _is_full(self, client: str) -> bool:
        """Return whether that client may not open another stream now."""
        taken, own, of_site = self._streams_of.total(), self._streams_of[client], self._streams_of_site[site_of(client)]
        part = taken / MAX_STREAMS
        is_beyond_share = own >= share_of(MAX_CLIENT_STREAMS, part) or of_site >= share_of(MAX_SITE_STREAMS, part)
        return self._ending or taken >= MAX_STREAMS or is_beyond_share

    async def _pass_on(self, stream_id: str, listener: Listener, send: EventSender) -> None:
        """Send answers and heartbeats until the process stops or an answer may have been lost."""
        await send(event(b"endpoint", f"{self._endpoint}{stream_id}".encode()))
        loop = asyncio.get_running_loop()
        due = loop.time() + HEARTBEAT_SECONDS
        while not self._ending:
            message = await listener.next(max(0.0, due - loop.time()))
            if message == b"":
                return
            if message is not None:
                await send(event(b"message", message))
            if loop.time() >= due:
                await self._streams.keep(stream_id)
                await send(COMMENT)
                due = loop.time() + HEARTBEAT_SECONDS

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of the HTTP with SSE transport (SPEC 4.8)."""
        return routes_of("mcp", ("GET", PATH, self.open), ("POST", MESSAGES, self.post), fault=fault)
