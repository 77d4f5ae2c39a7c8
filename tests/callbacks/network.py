"""A network for tests: resolvers with given answers, a dialler that counts, receivers that misbehave."""

import asyncio
import datetime
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import cast

import httpcore2
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from httpcore2 import AsyncNetworkBackend, AsyncNetworkStream

from node.callbacks.breaker import Breaker
from node.callbacks.owners import Requester
from node.callbacks.resolve import NotResolved
from node.callbacks.tls import client_contexts
from node.config import Limit
from node.config.values import Address
from tests.support.fake_store import FakeStore

SOMEBODY = Requester("somebody", "something")


def unlimited() -> Breaker:
    """Return a breaker that has seen no failure and has no rate limit."""
    return Breaker(FakeStore(), Limit(0, 1))


class FakeResolver:
    """Answers from a table. Each answer to a name is given once, in order; the last one repeats."""

    def __init__(self, **names: str) -> None:
        self._names = {name.replace("_", "."): answers.split(">") for name, answers in names.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, site: str = "") -> Sequence[Address]:
        self.asked.append(host)
        answers = self._names.get(host)
        if answers is None:
            raise NotResolved(f"{host} has no address")
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return [ip_address(each) for each in answer.split("|")]


async def never(host: str, site: str = "") -> Sequence[Address]:
    """A resolver that hangs."""
    await asyncio.Event().wait()
    return []


class Dialler(AsyncNetworkBackend):
    """Counts dials and the bytes read. It really dials, except to addresses that are dead or silent."""

    def __init__(
        self,
        *,
        dead: Iterable[str] = (),
        silent: Iterable[str] = (),
        everything_at: int | None = None,
        piece: int = 65_536,
    ) -> None:
        """`piece`: the most bytes that one read returns, as if the data arrived in segments of that size."""
        self._inner = cast("AsyncNetworkBackend", httpcore2.AnyIOBackend())
        self._dead = set(dead)
        self._silent = set(silent)
        self._everything_at = everything_at
        self.piece = piece
        self.dials: list[str] = []
        self.bytes_read = 0
        self.open = 0

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        self.dials.append(host)
        if host in self._dead:
            raise httpcore2.ConnectError("nobody is there")
        if host in self._silent:
            raise httpcore2.ConnectTimeout("nobody answered in time")
        if self._everything_at is not None:
            host, port = "127.0.0.1", self._everything_at
        stream = await self._inner.connect_tcp(host, port, timeout, local_address, socket_options)
        self.open += 1
        return _Counted(stream, self)


class _Counted(AsyncNetworkStream):
    def __init__(self, stream: AsyncNetworkStream, dialler: Dialler) -> None:
        self._stream = stream
        self._dialler = dialler
        self._closed = False

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await self._stream.read(min(max_bytes, self._dialler.piece), timeout)
        self._dialler.bytes_read += len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            self._dialler.open -= 1
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> AsyncNetworkStream:
        # The plain stream keeps its count as open: closing the TLS stream closes it.
        self._stream = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        return self

    def get_extra_info(self, info: str) -> object:
        return self._stream.get_extra_info(info)


@dataclass
class Receiver:
    """A server, and what it has received."""

    port: int = 0
    heads: list[bytes] = field(default_factory=list[bytes])
    bodies: list[bytes] = field(default_factory=list[bytes])

    def headers(self) -> dict[str, str]:
        """Return the headers of the only request received."""
        (head,) = self.heads
        lines = head.decode().split("\r\n")[1:]
        return {name: value for name, _, value in (line.partition(": ") for line in lines if line)}


Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


def says(text: bytes) -> Answer:
    """Return an answer that is always the same text."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await writer.drain()

    return answer


def repeats(start: bytes, again: bytes, pause: float = 0.0) -> Answer:
    """Return an answer that never ends."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(again)
            await writer.drain()
            await asyncio.sleep(pause)

    return answer


async def silence(writer: asyncio.StreamWriter) -> None:
    """Never answer."""
    await asyncio.Event().wait()


@asynccontextmanager
async def receiver(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncGenerator[Receiver]:
    """Run a server on loopback that reads a request and then answers with `answer`."""
    seen = Receiver()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        tasks.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            seen.heads.append(head)
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            seen.bodies.append(await reader.readexactly(length))
            await answer(writer)
        writer.close()
        tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    seen.port = server.sockets[0].getsockname()[1]
    try:
        yield seen
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks)


def certificate(directory: Path, name: str) -> tuple[ssl.SSLContext, tuple[ssl.SSLContext, ssl.SSLContext]]:
    """Return a server's TLS context for `name`, and a client's context that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    signed = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    path = directory / "tls.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + signed.public_bytes(serialization.Encoding.PEM)
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(path)
    return server, client_contexts(lambda: ssl.create_default_context(cafile=path))
