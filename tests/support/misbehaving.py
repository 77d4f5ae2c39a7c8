"""A proxy in front of a node that loses replies, breaks connections, and answers in the node's place."""

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import suppress

Fault = Callable[[int], str]
"""What happens to the n-th request, from 0: `pass`, `lose` (its reply), `break` (before the node sees it),
`unknown` (the node carries it out, but the answer is 503 store.unknown), `busy` (429 and Retry-After), `down` (503)."""

WORDS = {
    "unknown": ("503 Service Unavailable", "store.unknown", "0"),
    "busy": ("429 Too Many Requests", "limit.exceeded", "0"),
    "down": ("503 Service Unavailable", "store.unavailable", "0"),
}


class Misbehaving:
    """The proxy. Each connection carries one request."""

    def __init__(self, node_port: int, fault: Fault) -> None:
        self.requests = 0
        self.passed = 0
        """Requests that the node has answered."""
        self._node_port = node_port
        self._fault = fault

    async def __aenter__(self) -> "Misbehaving":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, client: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await client.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            body = await client.readexactly(int(length[1])) if length else b""
            what = self._fault(self.requests)
            self.requests += 1
            reply = await self._asked(head, body) if what in ("pass", "lose", "unknown") else b""
            if what in WORDS:
                reply = _said(*WORDS[what])
            if what not in ("lose", "break"):
                answer.write(reply)
                await answer.drain()
        answer.close()

    async def _asked(self, head: bytes, body: bytes) -> bytes:
        """The node's whole answer, after which it closes the connection."""
        start, _, lines = head.partition(b"\r\n")
        kept = [line for line in lines.split(b"\r\n") if line and not line.lower().startswith(b"connection:")]
        reader, writer = await asyncio.open_connection("127.0.0.1", self._node_port)
        writer.write(b"\r\n".join([start, *kept, b"Connection: close", b"", body]))
        reply = await reader.read()
        self.passed += 1
        writer.close()
        return reply


def _said(status: str, code: str, retry_after: str) -> bytes:
    body = json.dumps({"error": "The proxy says so."}).encode()
    headers = f"X-Error-Code: {code}\r\nRetry-After: {retry_after}\r\nContent-Type: application/json\r\n"
    start = f"HTTP/1.1 {status}\r\n{headers}".encode()
    return start + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body
