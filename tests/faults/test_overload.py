"""More requests than a whole node can answer: clean refusals while it lasts, normal service afterwards."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from node.overload.admission import MAX_NORMAL_REQUESTS
from tests.faults.sockets import PATIENCE, request
from tests.support.limits import NO_LIMITS_GIVEN
from tests.support.nodes import NodeProcess
from tests.support.servers import eventually

CLIENTS = 3 * MAX_NORMAL_REQUESTS
STAGGER = 0.003  # s between two clients' first requests, so that they do not all come at the same moment

HELLO = request(
    "POST",
    b"/api/v1/relay",
    b"Content-Type: application/json",
    body=b'{"message": "Hello, is anybody there who can read this?", "public": false}',
)
HEAD = request("HEAD", b"/llms.txt")
HEALTH = request("GET", b"/health")


class Answer:
    """One answer on a connection that stays open."""

    def __init__(self, head: bytes) -> None:
        status, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(status.split()[1])
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}

    @property
    def overloaded(self) -> bool:
        return self.headers.get("x-error-code") == "node.overloaded"


class Client:
    """Sends the same request again and again on one connection."""

    def __init__(self, port: int, wire: bytes) -> None:
        self.answers: list[Answer] = []
        self._port = port
        self._wire = wire

    async def run(self, delay: float) -> None:
        await asyncio.sleep(delay)
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            while True:
                writer.write(self._wire)
                answer = Answer(await reader.readuntil(b"\r\n\r\n"))
                if not self._wire.startswith(b"HEAD"):
                    await reader.readexactly(int(answer.headers["content-length"]))
                self.answers.append(answer)
                await asyncio.sleep(STAGGER)
        finally:
            writer.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "data") as node:
        yield node.start(**NO_LIMITS_GIVEN, RELAY_WORKERS="1").ready()


@asynccontextmanager
async def crowd(port: int) -> AsyncGenerator[list[Client]]:
    """Run many clients that relay, one that requests a page's headers, and one that requests the health."""
    clients = [Client(port, HELLO) for _ in range(CLIENTS)] + [Client(port, HEAD), Client(port, HEALTH)]
    running = [asyncio.ensure_future(client.run(number * STAGGER)) for number, client in enumerate(clients)]
    try:
        yield clients
        assert not any(task.done() for task in running)  # no connection was closed, and no answer truncated
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def seen(clients: list[Client], which: Callable[[Answer], bool]) -> list[Answer]:
    return [answer for client in clients for answer in client.answers if which(answer)]


async def test_overload_is_refused_cleanly_and_passes(node: NodeProcess) -> None:
    """Redis is frozen, the slowest that a store can be, while the clients keep sending."""
    redis = node.child("redis")
    async with crowd(node.port) as clients:
        *relaying, heads, health = clients
        await eventually(lambda: all(client.answers for client in clients), PATIENCE)
        os.kill(redis, signal.SIGSTOP)
        try:
            await eventually(lambda: seen([heads], lambda answer: answer.overloaded), PATIENCE)
            await eventually(lambda: len(seen(relaying, lambda answer: answer.overloaded)) > CLIENTS, PATIENCE)
        finally:
            os.kill(redis, signal.SIGCONT)
        refused = seen(relaying, lambda answer: answer.overloaded)
        assert {answer.status for answer in refused} == {503}
        assert {answer.headers["retry-after"] for answer in refused} == {"1"}
        assert {answer.headers["content-type"] for answer in refused} == {"application/json"}
        assert len({answer.headers["x-request-id"] for answer in refused}) == len(refused)
        assert not seen([health], lambda answer: answer.overloaded)
        answered = len(seen(relaying, lambda answer: answer.status == 200))
        await eventually(lambda: len(seen(relaying, lambda answer: answer.status == 200)) > answered, PATIENCE)
        assert {answer.status for answer in seen(relaying, lambda _: True)} == {200, 503}
    node.line("overload: refusing requests")
    node.line("overload over")
    assert node.get("/health")
