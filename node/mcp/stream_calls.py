"""Calls whose answers go to an event stream: the POST is answered at once, and the call runs afterwards.

If the POST waited for the call, a single long poll would hold up all later messages of a client that sends them one
after another.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager, suppress

import msgspec
from msgspec import Raw

from node.common.refusal import Refused
from node.mcp.answer_budget import STREAM_BYTES
from node.mcp.json_rpc import EMPTY, INTERNAL_ERROR, MAX_ID_BYTES, RpcError, RpcRequest, error_reply
from node.mcp.server import McpServer, Messages
from node.mcp.store import StreamStore
from node.mcp.tool_result import sentence
from node.store import Listener, StoreUnavailable
from node.web.errors import response_to
from node.web.http import ASGIMessage, Disconnected, Receive, Request

MAX_STREAM_CALLS = 64
"""Most calls of one stream under way in one process. Beyond it, the answer is 429. Each may have a body of 1 MiB."""

RETRY_SECONDS = (0.1, 1.0, 5.0)
"""Pauses before further attempts to send an answer while Redis cannot be reached, in seconds. An answer that is sent
twice does no harm, since both copies have the same id."""

CLOSE_SECONDS = 5.0
"""How long a stopping process waits for calls. Calls that wait for a change have been released before."""

CANCELLED = "notifications/cancelled"


class CancelledParams(msgspec.Struct, rename="camel"):
    """The params of a cancellation that name the cancelled request."""

    request_id: int | str


_cancelled_params = msgspec.json.Decoder(CancelledParams)


class CallRequest(Request):
    """The work that a POST asked for, after the POST was answered. Its client counts as connected while the stream is
    open."""

    __slots__ = ()

    def __init__(self, post: Request, receive: Receive) -> None:
        super().__init__(post.scope, receive, post.client, post.id, post.deadlines, post.turn)
        self.size = post.size

    @asynccontextmanager
    async def under_way(self) -> AsyncGenerator[None]:
        """Run the block as work on a request, like a POST: in its client's turn, and counted by admission control."""
        self.turn.count_as_inactive(-1)
        try:
            await self.turn.begin()
            yield
        finally:
            self.turn.end()
            self.turn.count_as_inactive(1)


class StreamCalls:
    """The calls under way in this process. Their streams may be held by other processes."""

    def __init__(self, server: McpServer, streams: StreamStore) -> None:
        self._server = server
        self._streams = streams
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls_of: Counter[str] = Counter()
        """Number of calls under way, by stream."""

    async def begin(self, stream_id: str, messages: Messages, post: Request) -> None:
        """Start a call for the messages of a POST. Raises Refused `limit.waiting` if the stream has too many calls.

        A call that waits for a change ends when its stream closes or its client cancels it, as a request ends when its
        client disconnects. A call that has begun to write is never interrupted: half of its changes would be kept, and
        its place in a limit given back. A batch cannot be cancelled: a cancellation names one member, but would end all
        of them, since they share one request.
        """
        request_id = messages.request_id if isinstance(messages, RpcRequest) else None
        with ExitStack() as listening:
            # Listen before the POST is answered, so that no cancellation that the client sends after it is missed.
            ends = listening.enter_context(await self._streams.listen_for_end(stream_id, request_id))
            if self._calls_of[stream_id] >= MAX_STREAM_CALLS:
                raise Refused("limit.waiting", retry_after=1, most=MAX_STREAM_CALLS)
            listening.pop_all()  # `_run` stops listening

        async def until_over() -> ASGIMessage:
            await self._streams.until_over(stream_id, ends)
            return {"type": "http.disconnect"}

        self._calls_of[stream_id] += 1
        post.turn.end()  # the call begins the turn again
        task = asyncio.create_task(self._run(stream_id, messages, CallRequest(post, until_over), ends))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def cancel(self, stream_id: str, params: object) -> None:
        """Cancel the call that the params of a notification name, in whichever process runs it.

        Params that cannot name a call are ignored, as MCP requires. Raises StoreUnavailable.
        """
        try:
            request_id = _cancelled_params.decode(params if isinstance(params, Raw) else EMPTY).request_id
        except msgspec.ValidationError:
            return
        if len(msgspec.json.encode(request_id)) <= MAX_ID_BYTES:
            await self._streams.cancel(stream_id, request_id)

    async def close(self) -> None:
        """Wait up to CLOSE_SECONDS for the calls under way."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)

    async def _run(self, stream_id: str, messages: Messages, request: CallRequest, ends: Listener) -> None:
        """Run a call and send its answer, unless it was cancelled before its turn or while it waited for a change.

        A cancelled call that has already done its work is still answered: the answer may have a token that is shown
        only once.
        """
        try:
            with ends:
                async with request.under_way():
                    answer = b"" if any(ends.heard()) else await self._answer(messages, request)
            if answer:
                await self._deliver(stream_id, answer)
        finally:
            self._calls_of[stream_id] -= 1
            if not self._calls_of[stream_id]:
                del self._calls_of[stream_id]

    async def _answer(self, messages: Messages, request: Request) -> bytes:
        """Return the answer; empty if nobody wants one. Any failure becomes an error, since the POST was answered."""
        try:
            return await self._server.answer(messages, request, STREAM_BYTES)
        except Disconnected:
            return b""
        except Exception as failure:  # noqa: BLE001 - any failure becomes an answer
            error = RpcError(INTERNAL_ERROR, sentence(response_to(request, failure).body))  # `response_to` logs it
            return error_reply(messages.request_id if isinstance(messages, RpcRequest) else None, error)

    async def _deliver(self, stream_id: str, answer: bytes) -> None:
        """Send an answer to its stream. If no process listens to the stream any more, close it."""
        for pause in (0.0, *RETRY_SECONDS):
            await asyncio.sleep(pause)
            with suppress(StoreUnavailable):
                if not await self._streams.deliver(stream_id, answer):
                    await self._streams.close(stream_id)
                return
