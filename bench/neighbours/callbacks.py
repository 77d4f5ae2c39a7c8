"""Callbacks of others: contracts that are claimed one a second, and how long until their publisher is told."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Callable

from bench.client import forwarded, request
from bench.entities import created
from bench.payload import encoded, sentence
from bench.schedule import SECOND, now
from bench.server import Server, ask

EVERY = 1.0  # seconds between two events
FINISH_SECONDS = 8.0  # for those that are still on their way at the end: more than the promised five
OFFER_TIMEOUT = 10.0
FAILING = "/503"  # paths that begin so are answered with 503
ANSWER = b"HTTP/1.1 %b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Receiver:
    """A web server on a loopback address of its own, which notes when which path was called first."""

    def __init__(self, address: str, domain: str, *, named: bool) -> None:
        """`domain`: of the host that many use. `named`: whether names have an address; else URLs carry the number."""
        self.address = address
        self.port = 0
        self.arrived: dict[str, int] = {}
        self._domain = domain
        self._named = named

    def shared(self, path: str) -> str:
        """A callback_url on the host that many use."""
        return self.url(self._domain, path)

    def url(self, domain: str, path: str) -> str:
        """A callback_url on one of its hosts."""
        host = f"hooks.{domain}.example" if self._named else self.address
        return f"http://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            path = head.split(" ", 2)[1]
            await reader.readexactly(int(head.partition("content-length:")[2].partition("\r\n")[0] or 0))
            self.arrived.setdefault(path, now())
            writer.write(ANSWER % (b"503 Busy" if path.startswith(FAILING) else b"204 Thanks"))
            await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def receiving(address: str, domain: str, *, named: bool) -> AsyncGenerator[Receiver]:
    """A receiver, listening until the end of the block."""
    receiver = Receiver(address, domain, named=named)
    server = await asyncio.start_server(receiver.serve, address, 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()


class Probe:
    """Offers and claims contracts, in turn with a host of their own and with one on a host that many use."""

    def __init__(self, node: Server, receiver: Receiver, client: Callable[[int], str], label: str) -> None:
        self._node = node
        self._receiver = receiver
        self._client = client
        self._label = label
        self._claimed: dict[str, int] = {}  # by the path that is to be called

    async def run(self) -> None:
        """One event a second until cancelled."""
        async with asyncio.TaskGroup() as events:
            for number in itertools.count():
                events.create_task(self._event(number))
                await asyncio.sleep(EVERY)

    async def _event(self, number: int) -> None:
        """One contract; if the node does not take it, that is for the load beside this to tell."""
        path = f"/{self._label}/{number}"
        own = self._receiver.url(f"{self._label}-{number}", path)
        url = self._receiver.shared(path) if number % 2 else own
        offer = encoded({"publisher_id": f"owner-{number}", "title": sentence(number), "callback_url": url})
        with contextlib.suppress(OSError, TimeoutError):
            status, body = await self._ask("/api/v1/tasks", offer, number)
            if status != 201:
                return
            task_id = created(body).id
            status, _ = await self._ask(f"/api/v1/tasks/{task_id}/claim", b'{"assignee_id":"worker"}', number)
            if status == 200:
                self._claimed[path] = now()

    async def _ask(self, path: str, body: bytes, number: int) -> tuple[int, bytes]:
        return await ask(
            self._node, forwarded(request("POST", path, body), self._client(number)), timeout=OFFER_TIMEOUT
        )

    async def finish(self) -> None:
        """Wait for what is on its way, for FINISH_SECONDS at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FINISH_SECONDS):
                while self.missing:  # noqa: ASYNC110 - arrivals are noted by path, there is no event for the last
                    await asyncio.sleep(0.05)

    @property
    def events(self) -> int:
        return len(self._claimed)

    @property
    def missing(self) -> int:
        """Events that nobody has been told of."""
        return sum(path not in self._receiver.arrived for path in self._claimed)

    @property
    def latest(self) -> float:
        """The longest time from an event to its call, in seconds; of one that is not called yet, until now."""
        arrived, by_now = self._receiver.arrived, now()
        return max((max(0, arrived.get(path, by_now) - at) / SECOND for path, at in self._claimed.items()), default=0.0)


@contextlib.asynccontextmanager
async def probing(probe: Probe) -> AsyncGenerator[Probe]:
    """Events until the end of the block."""
    running = asyncio.get_running_loop().create_task(probe.run())
    try:
        yield probe
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
