"""An event stream of a node in the test, read event by event."""

import asyncio
from types import TracebackType
from typing import Any, Self

import httpx2

from node.web.http import ASGIMessage
from tests.mcp.calls import request
from tests.support.http_scope import HOST, http_scope
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import PATIENCE


class EventStream:
    """GET /mcp/sse over ASGI, because the test's HTTP client cannot read it piece by piece."""

    def __init__(self, node: NodeUnderTest, address: str = "203.0.113.7", method: str = "GET", **headers: str) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.endpoint = ""
        self.reading = asyncio.Event()
        """While this is not set, the client does not read."""
        self.reading.set()
        self.body = b""
        self._node = node
        self._method = method
        self._headers = headers
        self._address = address
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._started = asyncio.Event()
        self._left = asyncio.Event()

    async def __aenter__(self) -> Self:
        headers = [(name.encode(), value.encode()) for name, value in self._headers.items()]
        scope = http_scope(self._method, "/mcp/sse", HOST, *headers, client=self._address)
        self._task = asyncio.create_task(self._node.app(scope, self._receive, self._send))
        async with asyncio.timeout(PATIENCE):
            await self._started.wait()
        if self.status == 200 and self._method == "GET":
            opening = asyncio.create_task(self.event())
            await asyncio.wait((opening, self._task), return_when=asyncio.FIRST_COMPLETED)
            if not opening.done() and self._pieces.empty():  # it ended before its first event
                opening.cancel()
                return self
            event, self.endpoint = await opening
            assert event == "endpoint"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.reading.set()
        self.leave()
        await self.ended()

    def leave(self) -> None:
        """Disconnect the client."""
        self._left.set()

    async def ended(self) -> None:
        """Return once the server has ended the stream."""
        async with asyncio.timeout(PATIENCE):
            await asyncio.shield(self._task)

    async def piece(self) -> bytes:
        """Return the next piece that the server sends."""
        async with asyncio.timeout(PATIENCE):
            return await self._pieces.get()

    async def event(self) -> tuple[str, str]:
        """Return the type and the data of the next event."""
        event = await self.piece()
        while not event.endswith(b"\n\n"):
            event += await self.piece()
        first, second, *rest = event.decode().split("\n")
        assert rest == ["", ""], "one line of data"
        return first.removeprefix("event: "), second.removeprefix("data: ")

    async def post(self, content: Any, **headers: str) -> httpx2.Response:
        """POST a message to the endpoint named by the stream."""
        return await self._node.client.post(self.endpoint, json=content, headers=headers)

    async def ask(self, method: str, params: Any = None, request_id: Any = 1) -> str:
        """Send a request, and return the reply that arrives on the stream."""
        response = await self.post(request(method, params, request_id))
        assert response.status_code == 202
        kind, data = await self.event()
        assert kind == "message"
        return data

    async def _receive(self) -> ASGIMessage:
        if not self._started.is_set():
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: ASGIMessage) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            self._started.set()
            return
        self.body += message["body"]
        if message.get("more_body"):
            self._pieces.put_nowait(message["body"])
            await self.reading.wait()
