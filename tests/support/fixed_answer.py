"""A server that gives every request the same answer, or no answer."""

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Self


def answer(status: str, content: bytes = b"", *headers: str) -> bytes:
    """Return the bytes of an answer after which the connection closes."""
    lines = (f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(content)}", "Connection: close", "", "")
    return "\r\n".join(lines).encode() + content


class LocalServer(ABC):
    """A server on a free port for as long as the context lasts. Each connection carries one request."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    @abstractmethod
    async def _serve(self, client: asyncio.StreamReader, reply: asyncio.StreamWriter) -> None: ...


class FixedAnswer(LocalServer):
    """Gives every request the same answer. Without an answer, it stays silent and keeps its connections open."""

    def __init__(self, reply: bytes = b"") -> None:
        self._reply = reply
        self.heads: list[bytes] = []
        """Heads of the received requests."""

    async def _serve(self, client: asyncio.StreamReader, reply: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            self.heads.append(await client.readuntil(b"\r\n\r\n"))
            if self._reply:
                reply.write(self._reply)
                await reply.drain()
            else:
                await client.read()  # until the client gives up
        reply.close()
