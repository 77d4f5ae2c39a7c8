"""Properties that all transports share, tested with a real node where one is needed."""

import asyncio
import gzip
import math
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import httpx
import pytest
from tests.support.fixed_answer import FixedAnswer, answer
from tests.support.nodes import NodeProcess
from tests.support.servers import PATIENCE, eventually

from relay_client import AsyncRelay, DeadlineExceeded, InvalidAnswer, Relay, UsageError
from relay_client.events import LINES
from relay_client.fast import AiohttpTransport
from relay_client.signing import KeyFile
from relay_client.transport import AsyncHttpxTransport, AsyncTransport, HttpxTransport

FORKING = """
import os, sys
from relay_client import Relay
from relay_client.transport import HttpxTransport
relay = Relay(sys.argv[1], transport=HttpxTransport(headers={"x-team": "solar"}))
relay.node.health()
if child := os.fork():
    os.waitpid(child, 0)
relay.node.health()
"""

ENDLESS_BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
ENDLESS_HEADERS = b"HTTP/1.1 200 OK\r\nX-Name: "
ENDLESS_REFUSAL = ENDLESS_BODY.replace(b"200 OK", b"404 Not Found")

MakeTransport = Callable[..., AsyncTransport]


@pytest.fixture(params=[AsyncHttpxTransport, AiohttpTransport], ids=["httpx", "aiohttp"])
def make(request: pytest.FixtureRequest) -> MakeTransport:
    return request.param


async def test_what_is_signed_is_sent_as_it_was_signed(
    served: NodeProcess, make: MakeTransport, tmp_path: Path
) -> None:
    """This also holds if the address is spelled differently from how it is sent."""
    key = KeyFile(tmp_path / "agent.key")
    async with AsyncRelay(served.url.upper(), signer=key, transport=make()) as relay:
        await relay.inboxes.open()
        page = await relay.events.page(f"inbox:{key.address}", types=["inbox.message"], cursor="earliest")
        assert page["events"] == []


def one_connection(make: MakeTransport) -> AsyncTransport:
    if make is AiohttpTransport:
        return make(connector=aiohttp.TCPConnector(limit=1))
    return make(limits=httpx.Limits(max_connections=1))


async def test_a_call_that_gets_no_connection_fails_at_its_deadline(make: MakeTransport) -> None:
    async with FixedAnswer() as silent, AsyncRelay(silent.url, transport=one_connection(make)) as relay:
        first = asyncio.create_task(relay.node.health())
        await eventually(lambda: silent.heads)
        with pytest.raises(DeadlineExceeded):
            await relay.with_options(deadline=0.5).node.health()
        assert len(silent.heads) == 1
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first


async def test_a_deadline_may_be_infinite(make: MakeTransport) -> None:
    """Regression: with aiohttp, the call raised OverflowError."""
    async with FixedAnswer(answer("200 OK", b"{}")) as node:
        async with AsyncRelay(node.url, deadline=math.inf, transport=make()) as relay:
            await relay.node.health()
        with Relay(node.url, deadline=math.inf) as waiting:
            await asyncio.to_thread(waiting.node.health)


@asynccontextmanager
async def trickling(begin: bytes, ended: list[bool]) -> AsyncGenerator[str]:
    """Run a server whose answers start with `begin` and then continue byte by byte without end. Yields its URL."""

    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            writer.write(begin)
            while not writer.is_closing():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.02)
        writer.close()
        ended.append(True)

    async with await asyncio.start_server(trickle, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("begin", [ENDLESS_BODY, ENDLESS_HEADERS])
async def test_an_answer_that_does_not_end_is_given_up_at_the_deadline(make: MakeTransport, begin: bytes) -> None:
    """Regression: the call waited for ever as long as a byte came now and then."""
    ended: list[bool] = []
    async with trickling(begin, ended) as url:
        async with AsyncRelay(url, deadline=1.0, transport=make()) as relay:
            with pytest.raises(DeadlineExceeded):
                await asyncio.wait_for(relay.node.health(), PATIENCE)
        await eventually(lambda: len(ended) == 1)


async def test_a_body_that_does_not_end_is_given_up_at_the_deadline_without_asyncio_too() -> None:
    ended: list[bool] = []
    async with trickling(ENDLESS_BODY, ended) as url:
        with Relay(url, deadline=1.0) as waiting, pytest.raises(DeadlineExceeded):
            await asyncio.wait_for(asyncio.to_thread(waiting.node.health), PATIENCE)
        await eventually(lambda: len(ended) == 1)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a follower end where it would otherwise try again."""
    monkeypatch.setattr("relay_client.events.PASSING", ())


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("begin", [ENDLESS_HEADERS, ENDLESS_REFUSAL])
async def test_a_stream_that_does_not_begin_is_given_up_at_the_deadline(make: MakeTransport, begin: bytes) -> None:
    """Regression: the follower waited for ever as long as a byte came now and then."""
    ended: list[bool] = []
    async with trickling(begin, ended) as url:
        async with AsyncRelay(url, deadline=1.0, transport=make()) as relay:
            with pytest.raises(DeadlineExceeded):
                await asyncio.wait_for(anext(relay.events.follow("board")), PATIENCE)
        await eventually(lambda: len(ended) == 1)


@pytest.mark.usefixtures("impatient")
async def test_a_refusal_that_does_not_end_is_given_up_without_asyncio_too() -> None:
    ended: list[bool] = []
    async with trickling(ENDLESS_REFUSAL, ended) as url:
        with Relay(url, deadline=1.0) as waiting, pytest.raises(DeadlineExceeded):
            await asyncio.wait_for(asyncio.to_thread(next, waiting.events.follow("board")), PATIENCE)
        await eventually(lambda: len(ended) == 1)


LARGE = (gzip.compress(b'{"status": "%s"}' % (b"a" * 10_000)), "Content-Encoding: gzip", f"Content-Type: {LINES}")
TOO_LARGE = pytest.mark.parametrize("status", ["200 OK", "404 Not Found"])


@pytest.fixture
def small_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay_client.steps.LARGEST_ANSWER", 10_000)


@TOO_LARGE
@pytest.mark.usefixtures("small_answers")
async def test_an_answer_larger_than_any_of_a_node_is_not_kept(make: MakeTransport, status: str) -> None:
    """Nor is an answer that is large only once it is decompressed."""
    async with FixedAnswer(answer(status, *LARGE)) as node, AsyncRelay(node.url, transport=make()) as relay:
        with pytest.raises(InvalidAnswer, match="more than 10000 bytes"):
            await relay.node.health()
        with pytest.raises(InvalidAnswer, match="more than 10000 bytes"):
            await anext(relay.events.follow("board"))
    assert len(node.heads) == 2


@TOO_LARGE
@pytest.mark.usefixtures("small_answers")
async def test_nor_is_it_without_asyncio(status: str) -> None:
    def ask(url: str) -> None:
        with Relay(url) as relay:
            with pytest.raises(InvalidAnswer, match="more than 10000 bytes"):
                relay.node.health()
            with pytest.raises(InvalidAnswer, match="more than 10000 bytes"):
                next(relay.events.follow("board"))

    async with FixedAnswer(answer(status, *LARGE)) as node:
        await asyncio.to_thread(ask, node.url)
    assert len(node.heads) == 2


async def test_the_deadline_of_calls_ends_no_stream(make: MakeTransport) -> None:
    deadline, asked = 1.0, list[bytes]()  # seconds, enough for a busy machine to open the stream

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n")
        await asyncio.sleep(1.1 * deadline)
        writer.write(b'{"id": "1", "type": "thread.posted"}\n')
        with suppress(ConnectionError):
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with AsyncRelay(url, deadline=deadline, transport=make()) as relay:
            event = await asyncio.wait_for(anext(relay.events.follow("board")), PATIENCE)
            assert event["id"] == "1"
    assert len(asked) == 1


async def test_headers_may_be_added(make: MakeTransport) -> None:
    async with FixedAnswer(answer("200 OK", b"{}")) as node:
        async with AsyncRelay(node.url, transport=make(headers={"X-Team": "solar"})) as relay:
            await relay.node.health()
        options = {"headers": {"user-agent": "solar"}}
        with Relay(node.url, transport=HttpxTransport(**options)) as waiting:
            await asyncio.to_thread(waiting.node.health)
    assert b"x-team: solar" in node.heads[0].lower()
    assert b"user-agent: relay-node-client/" in node.heads[0].lower()
    assert node.heads[1].lower().count(b"user-agent:") == 1
    assert b"user-agent: solar" in node.heads[1].lower()


async def test_closing_ends_a_stream_that_is_being_read(
    served: NodeProcess, make: MakeTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: with aiohttp, the reader of the stream waited for ever."""
    monkeypatch.setattr("relay_client.events.RETURN_PAUSE", 0.01)
    async with AsyncRelay(served.url, transport=make()) as relay:
        session = await relay.sessions.open()
        await relay.sessions.send(session["session_id"], "one")
        events = relay.events.follow(f"session:{session['session_id']}", cursor="earliest")
        await anext(events)
        following = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)  # the iteration starts to read
    with pytest.raises(UsageError, match="closed"):
        await asyncio.wait_for(following, PATIENCE)


async def test_processes_after_a_fork_share_no_connection() -> None:
    """Regression: they shared connections, and each process could get the other's answers."""
    connections = 0
    requests: list[tuple[int, bool]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        number = connections
        with suppress(asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                requests.append((number, b"x-team: solar" in head))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", FORKING, url, env=environment)
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
    assert requests == [(1, True), (2, True), (1, True)]
