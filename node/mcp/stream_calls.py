"""Calls whose answers go to an event stream: a POST is answered at once, and what it asks for is done after that.

A client that sends one message after the other would wait with all of them for a call that waits.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from node.common.refusal import Refused
from node.mcp.answer_budget import STREAM_BYTES
from node.mcp.json_rpc import INTERNAL_ERROR, RpcError, RpcRequest, error_reply
from node.mcp.server import McpServer, Messages
from node.mcp.store import StreamStore
from node.mcp.tool_result import sentence
from node.store import StoreUnavailable
from node.web.errors import response_to
from node.web.http import ASGIMessage, Receive, Request

MAX_STREAM_CALLS = 64
"""POSTs of one stream that are under way in one process; beyond it, 429. Each has up to 1 MiB."""

RETRY_SECONDS = (0.1, 1.0, 5.0)
"""Pauses between attempts to send an answer while Redis is out of reach. Twice does no harm: its id is known then."""

CLOSE_SECONDS = 5.0
"""How long the end of the process waits for calls. Those that wait for a change have been let go before."""


class CallRequest(Request):
    """What a POST asks for, once the POST itself is answered. Its client is there while the stream is."""

    __slots__ = ()

    def __init__(self, post: Request, receive: Receive) -> None:
        super().__init__(post.scope, receive, post.client, post.id, post.deadlines, post.turn)

    @asynccontextmanager
    async def under_way(self) -> AsyncGenerator[None]:
        """The block is work on a request, as the POST was: in its client's turn, and known to admission control."""
        self._count_as_waiting(-1)
        try:
            await self.begin()
            yield
        finally:
            self.turn.end()
            self._count_as_waiting(1)


class StreamCalls:
    """Those under way in this process. The stream of a call may be another process'."""

    def __init__(self, server: McpServer, streams: StreamStore) -> None:
        self._server = server
        self._streams = streams
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls_of: Counter[str] = Counter()
        """How many there are, by stream."""

    def begin(self, stream_id: str, messages: Messages, post: Request) -> None:
        """Begin to answer what was posted. Raises Refused `limit.waiting` if the stream has too many calls under way.

        When the stream ends, so do the calls that wait for a change, as when the client of a request goes away. What
        has begun to write is never cut off: half of it would be kept, and its place in a limit given back.
        """
        if self._calls_of[stream_id] >= MAX_STREAM_CALLS:
            raise Refused("limit.waiting", retry_after=1, most=MAX_STREAM_CALLS)

        async def until_closed() -> ASGIMessage:
            await self._streams.until_closed(stream_id)
            return {"type": "http.disconnect"}

        self._calls_of[stream_id] += 1
        post.turn.end()  # the call takes it up again
        task = asyncio.create_task(self._run(stream_id, messages, CallRequest(post, until_closed)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait for the calls under way."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)

    async def _run(self, stream_id: str, messages: Messages, request: CallRequest) -> None:
        try:
            async with request.under_way():
                answer = await self._answer(messages, request)
            if answer:
                await self._deliver(stream_id, answer)
        finally:
            self._calls_of[stream_id] -= 1
            if not self._calls_of[stream_id]:
                del self._calls_of[stream_id]

    async def _answer(self, messages: Messages, request: Request) -> bytes:
        """The answer; an error if there is none, since nobody is left to whom a failure could be told otherwise."""
        try:
            return await self._server.answer(messages, request, STREAM_BYTES)
        except Exception as failure:  # noqa: BLE001 - any failure becomes an answer
            error = RpcError(INTERNAL_ERROR, sentence(response_to(request, failure).body))  # logged there
            return error_reply(messages.request_id if isinstance(messages, RpcRequest) else None, error)

    async def _deliver(self, stream_id: str, answer: bytes) -> None:
        """Send an answer to its stream, which counts as closed if nobody listens for it any more."""
        for pause in RETRY_SECONDS:
            with suppress(StoreUnavailable):
                if not await self._streams.deliver(stream_id, answer):
                    await self._streams.close(stream_id)
                return
            await asyncio.sleep(pause)
