"""A server that acknowledges everything, to try the suite without a node."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncGenerator, Generator
from typing import cast

ACKNOWLEDGED = b'{"status":"acknowledged","node_id":"stand-in","reference_id":"1"}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(ACKNOWLEDGED), ACKNOWLEDGED)
LENGTH = b"content-length: "


class StandIn:
    """Answers requests as they arrive, but holds back all answers between `hold` and `release`."""

    def __init__(self) -> None:
        self.port = 0
        self.requests = 0
        self.peers: set[str] = set()
        self.connections: set[asyncio.Transport] = set()
        self._held: list[asyncio.Transport] | None = None

    def hold(self) -> None:
        self._held = []

    def release(self) -> None:
        held, self._held = self._held or [], None
        for transport in held:
            transport.write(ANSWER)

    def answer(self, transport: asyncio.Transport) -> None:
        self.requests += 1
        if self._held is None:
            transport.write(ANSWER)
        else:
            self._held.append(transport)


class _Connection(asyncio.Protocol):
    def __init__(self, server: StandIn) -> None:
        self._server = server
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server.connections.add(self._transport)
        self._server.peers.add(transport.get_extra_info("peername")[0])

    def data_received(self, data: bytes) -> None:
        """Answer each complete request. A request whose length is no number closes the connection."""
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            length = self._data[:end].lower().partition(LENGTH)[2].split(b"\r\n")[0] or b"0"
            if not length.isdigit():
                self._transport.abort()
                return
            size = end + 4 + int(length)
            if len(self._data) < size:
                return
            self._data = self._data[size:]
            self._server.answer(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self._transport)


@contextlib.asynccontextmanager
async def stand_in() -> AsyncGenerator[StandIn]:
    """Run a stand-in on a free port, in this event loop."""
    server = StandIn()
    loop = asyncio.get_running_loop()
    connecting: set[asyncio.Task[object]] = set()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server.port = listening.getsockname()[1]

        def accept() -> None:
            # `create_server` is not used, because it does not close connections that it accepts while it is being
            # closed (CPython 3.11).
            accepted, _ = listening.accept()
            connecting.add(loop.create_task(loop.connect_accepted_socket(lambda: _Connection(server), accepted)))

        loop.add_reader(listening, accept)
        try:
            yield server
        finally:
            loop.remove_reader(listening)
            await asyncio.gather(*connecting)
            for transport in list(server.connections):
                transport.abort()
            await asyncio.sleep(0)


@contextlib.contextmanager
def stand_in_beside() -> Generator[StandIn]:
    """Run a stand-in in a thread of its own, for code that runs an event loop itself."""
    started = threading.Event()
    found: list[tuple[StandIn, asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def main() -> None:
        stop = asyncio.Event()
        async with stand_in() as server:
            found.append((server, asyncio.get_running_loop(), stop))
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert started.wait(10)
    server, loop, stop = found[0]
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
