"""Callbacks of others: a contract is claimed every second, and the time until its publisher is called is measured."""

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
FINISH_SECONDS = 8.0  # wait for callbacks that are outstanding at the end: longer than the promised five
OFFER_TIMEOUT = 10.0
FAILING = "/503"  # paths with this prefix are answered with 503
ANSWER = b"HTTP/1.1 %b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Receiver:
    """A web server on its own loopback address. It records when each path was first called."""

    def __init__(self, address: str, domain: str, *, named: bool) -> None:
        """`domain`: that of the shared host. `named`: whether host names resolve; if not, URLs contain the address."""
        self.address = address
        self.port = 0
        self.arrived: dict[str, int] = {}
        self._domain = domain
        self._named = named

    def shared(self, path: str) -> str:
        """Return a callback_url on the shared host."""
        return self.url(self._domain, path)

    def url(self, domain: str, path: str) -> str:
        """Return a callback_url on the host of a domain."""
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
    """Run a receiver until the end of the block."""
    receiver = Receiver(address, domain, named=named)
    server = await asyncio.start_server(receiver.serve, address, 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()


class Probe:
    """Offers and claims contracts. Their callbacks go alternately to a host of their own and to the shared host."""

    def __init__(self, node: Server, receiver: Receiver, client: Callable[[int], str], label: str) -> None:
        self._node = node
        self._receiver = receiver
        self._client = client
        self._label = label
        self._claimed: dict[str, int] = {}  # time of the claim, in ns, by the path of the callback

    async def run(self) -> None:
        """Make one event a second until cancelled."""
        async with asyncio.TaskGroup() as events:
            for number in itertools.count():
                events.create_task(self._event(number))
                await asyncio.sleep(EVERY)

    async def _event(self, number: int) -> None:
        """Offer and claim one contract. Failures are ignored: the load that runs beside the probe shows them."""
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
        """Wait for outstanding callbacks, for at most FINISH_SECONDS."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FINISH_SECONDS):
                while self.missing:  # noqa: ASYNC110 - arrivals are recorded by path; nothing signals the last one
                    await asyncio.sleep(0.05)

    @property
    def events(self) -> int:
        return len(self._claimed)

    @property
    def missing(self) -> int:
        """Number of events whose callback has not arrived."""
        return sum(path not in self._receiver.arrived for path in self._claimed)

    @property
    def latest(self) -> float:
        """Longest time from an event to its callback, in seconds. A callback that has not arrived counts until now."""
        arrived, by_now = self._receiver.arrived, now()
        return max((max(0, arrived.get(path, by_now) - at) / SECOND for path, at in self._claimed.items()), default=0.0)


@contextlib.asynccontextmanager
async def probing(probe: Probe) -> AsyncGenerator[Probe]:
    """Run the probe until the end of the block."""
    running = asyncio.get_running_loop().create_task(probe.run())
    try:
        yield probe
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
