"""Calls whose answers go to an event stream: a POST is answered at once, and what it asks for is done after that.

Otherwise, one call that waits would hold up all later messages of a client that sends them one after another.
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
"""POSTs of one stream that are under way in one process; beyond it, 429. Each may have 1 MiB."""

RETRY_SECONDS = (0.1, 1.0, 5.0)
"""Pauses between attempts to send an answer while Redis is out of reach. Sent twice, it does no harm (same id)."""

CLOSE_SECONDS = 5.0
"""How long a process that stops waits for calls. Those that wait for a change have been released before."""

CANCELLED = "notifications/cancelled"


class CancelledParams(msgspec.Struct, rename="camel"):
    """The params of a cancellation, as far as they say what is cancelled."""

    request_id: int | str


_cancelled_params = msgspec.json.Decoder(CancelledParams)


class CallRequest(Request):
    """What a POST asks for, once the POST itself is answered. Its client is connected while the stream is open."""

    __slots__ = ()

    def __init__(self, post: Request, receive: Receive) -> None:
        super().__init__(post.scope, receive, post.client, post.id, post.deadlines, post.turn)
        self.size = post.size

    @asynccontextmanager
    async def under_way(self) -> AsyncGenerator[None]:
        """Run the block as work on a request, like the POST: in its client's turn, and known to admission control."""
        self.turn.count_as_inactive(-1)
        try:
            await self.turn.begin()
            yield
        finally:
            self.turn.end()
            self.turn.count_as_inactive(1)


class StreamCalls:
    """The calls under way in this process; other processes may hold their streams."""

    def __init__(self, server: McpServer, streams: StreamStore) -> None:
        self._server = server
        self._streams = streams
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls_of: Counter[str] = Counter()
        """How many there are, by stream."""

    async def begin(self, stream_id: str, messages: Messages, post: Request) -> None:
        """Begin to answer what was posted. Raises Refused `limit.waiting` if the stream has too many calls under way.

        A call that waits for a change ends when its stream does, or when its client cancels it, as a request does whose
        client goes away. What has begun to write is never cut off: half of it would be kept, and its place in a limit
        given back. A batch cannot be cancelled: its members have one POST, and so one client, that goes or stays.
        """
        request_id = messages.request_id if isinstance(messages, RpcRequest) else None
        with ExitStack() as listening:
            # Before the POST is answered, so that whatever its client cancels after that is heard.
            ends = listening.enter_context(await self._streams.listen_for_end(stream_id, request_id))
            if self._calls_of[stream_id] >= MAX_STREAM_CALLS:
                raise Refused("limit.waiting", retry_after=1, most=MAX_STREAM_CALLS)
            listening.pop_all()  # `_run` ends it

        async def until_over() -> ASGIMessage:
            await self._streams.until_over(stream_id, ends)
            return {"type": "http.disconnect"}

        self._calls_of[stream_id] += 1
        post.turn.end()  # the call takes it up again
        task = asyncio.create_task(self._run(stream_id, messages, CallRequest(post, until_over), ends))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def cancel(self, stream_id: str, params: object) -> None:
        """Cancel the call that the params of a notification name, which is in the process that got its POST.

        Params that cannot name a call are ignored, as MCP asks. Raises StoreUnavailable.
        """
        try:
            request_id = _cancelled_params.decode(params if isinstance(params, Raw) else EMPTY).request_id
        except msgspec.ValidationError:
            return
        if len(msgspec.json.encode(request_id)) <= MAX_ID_BYTES:
            await self._streams.cancel(stream_id, request_id)

    async def close(self) -> None:
        """Wait for the calls under way."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)

    async def _run(self, stream_id: str, messages: Messages, request: CallRequest, ends: Listener) -> None:
        """Answer a call, unless it was cancelled before its turn came, or cut off while it waited.

        One that has done its work by then is still answered: the answer may hold a token that is shown only once.
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
        """The answer, empty if nobody wants one. A failure becomes an error: there is no other way to report it."""
        try:
            return await self._server.answer(messages, request, STREAM_BYTES)
        except Disconnected:
            return b""
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
