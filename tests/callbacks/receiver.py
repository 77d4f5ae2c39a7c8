"""A callback receiver for tests: a real HTTP server on loopback that verifies what it receives."""

import asyncio
import json
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Self

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from tests.support.servers import PATIENCE, free_port

Answer = Callable[[int], int]
"""Returns the status for the n-th request to a host, counted from 0 in the order of arrival."""


class Receiver:
    """Keeps every message with a valid signature, in order, and answers as configured."""

    def __init__(
        self, public_key: bytes, answer: Answer = lambda _: 204, hosts: Sequence[str] = ("127.0.0.1",)
    ) -> None:
        self.messages: list[tuple[str, dict[str, Any]]] = []
        """webhook-id and body of the messages answered with 2xx."""
        self.headers: list[dict[str, str]] = []
        """Headers of each of these messages."""
        self.requests = 0
        self.paths: Counter[str] = Counter()
        """Number of requests by path."""
        self.answers: dict[str, bytes] = {}
        """Status and further header lines for requests to certain paths."""
        self.forged = 0
        self._key = VerifyKey(public_key)
        self._answer = answer
        self._hosts = hosts
        self._come: Counter[str] = Counter()
        """Number of requests by host, including those that are not answered yet."""
        self._port = free_port()
        self._server: asyncio.Server | None = None
        self._arrived = asyncio.Condition()

    @property
    def url(self) -> str:
        return self.urls[0]

    @property
    def urls(self) -> list[str]:
        """One URL for each host."""
        return [f"http://{host}:{self._port}/hook" for host in self._hosts]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self._hosts, self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server:
            self._server.close()
            await self._server.wait_closed()

    def url_at(self, path: str, host: str = "127.0.0.1") -> str:
        """Return a URL of this receiver. `host` may be any name that resolves to one of its hosts."""
        return f"http://{host}:{self._port}{path}"

    async def until(self, count: int, seconds: float = PATIENCE, path: str = "") -> None:
        """Wait until this many requests have arrived, in all or at `path` if it is given."""
        async with asyncio.timeout(seconds), self._arrived:
            await self._arrived.wait_for(lambda: (self.paths[path] if path else self.requests) >= count)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):  # the sender was killed
            await self._take(reader, writer)
        writer.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers["content-length"]))
        path = head[0].split(" ")[1]
        host = writer.get_extra_info("sockname")[0]
        number = self._come[host]
        self._come[host] += 1
        answer = self.answers.get(path) or b"%d X" % self._answer(number)
        status = int(answer[:3])
        if not self._verified(headers, body):
            self.forged += 1
        elif 200 <= status < 300:
            self.messages.append((headers["webhook-id"], json.loads(body)))
            self.headers.append(headers)
        writer.write(b"HTTP/1.1 %b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % answer)
        await writer.drain()
        async with self._arrived:
            self.requests += 1
            self.paths[path] += 1
            self._arrived.notify_all()

    def _verified(self, headers: dict[str, str], body: bytes) -> bool:
        version, _, signature = headers["webhook-signature"].partition(",")
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        try:
            self._key.verify(signed, b64decode(signature))
        except BadSignatureError:
            return False
        return version == "v1a"
