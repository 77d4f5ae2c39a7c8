"""A proxy in front of a node that loses replies, breaks connections, and answers in place of the node."""

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress

from tests.support.fixed_answer import LocalServer, answer

JSON = "Content-Type: application/json"

Fault = Callable[[int], str]
"""Returns what happens to the n-th request, counted from 0: `pass`, `lose` (its reply is lost), `break` (the connection
closes before the node sees the request), `unknown` (the node carries it out, but the answer is 503 store.unknown),
`busy` (429 with Retry-After), `down` (503).
"""

ANSWERS = {
    what: answer(status, b'{"error":"The proxy says so."}', f"X-Error-Code: {code}", "Retry-After: 0", JSON)
    for what, status, code in (
        ("unknown", "503 Service Unavailable", "store.unknown"),
        ("busy", "429 Too Many Requests", "limit.exceeded"),
        ("down", "503 Service Unavailable", "store.unavailable"),
    )
}


class Misbehaving(LocalServer):
    """The proxy. Each connection carries one request."""

    def __init__(self, node_port: int, fault: Fault) -> None:
        self.requests = 0
        self.passed = 0
        """Number of requests that the node has answered."""
        self._node_port = node_port
        self._fault = fault

    async def _serve(self, client: asyncio.StreamReader, reply: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await client.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            body = await client.readexactly(int(length[1])) if length else b""
            what = self._fault(self.requests)
            self.requests += 1
            said = await self._asked(head, body) if what in ("pass", "lose", "unknown") else b""
            if what not in ("lose", "break"):
                reply.write(ANSWERS.get(what, said))
                await reply.drain()
        reply.close()

    async def _asked(self, head: bytes, body: bytes) -> bytes:
        """Return the node's whole answer, after which the node closes the connection."""
        start, _, lines = head.partition(b"\r\n")
        kept = [line for line in lines.split(b"\r\n") if line and not line.lower().startswith(b"connection:")]
        reader, writer = await asyncio.open_connection("127.0.0.1", self._node_port)
        writer.write(b"\r\n".join([start, *kept, b"Connection: close", b"", body]))
        reply = await reader.read()
        self.passed += 1
        writer.close()
        return reply
