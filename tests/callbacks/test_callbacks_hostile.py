"""Receivers with bad intentions, through the whole pipeline: one dial each, nothing followed, and an end (DESIGN 8)."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import msgspec
import pytest
import pytest_asyncio

from node.callbacks.breaker import Breaker
from node.callbacks.call import AttemptTimeouts, Caller
from node.callbacks.concurrency import Concurrency
from node.callbacks.queue import CallbackQueue, DeadLetter
from node.callbacks.resolve import SystemResolver
from node.callbacks.sender import Sender
from node.callbacks.service import Callbacks, Deliverer
from node.callbacks.target_check import policy_of
from node.config import Schedule, Settings
from node.sign.node_key import NodeKey, webhook_key
from node.store import connect, ids, keys
from node.store.decoding import fields_of
from node.store.outbox import Consumer
from node.tasks.compaction import unpack
from tests.callbacks.receiver import Receiver
from tests.support.node_under_test import SIGNING_KEY, NodeUnderTest
from tests.support.servers import PATIENCE, eventually

SOON = 1.0  # s until an attempt at a silent receiver times out
METADATA = b"HTTP/1.1 302 X\r\nLocation: http://169.254.169.254/latest/meta-data/\r\nContent-Length: 0\r\n\r\n"
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Hostile:
    """A server that treats each connection as it likes."""

    def __init__(self, talk: Talk) -> None:
        self.dials = 0
        self.url = ""
        self._talk = talk
        self._writers: list[asyncio.StreamWriter] = []
        self._is_over = False

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.dials += 1
        self._writers.append(writer)
        if not self._is_over:
            await self._talk(reader, writer)
        writer.close()

    async def hang_up(self) -> None:
        """Close the connections that are open, and those that were being opened when the server was closed."""
        self._is_over = True
        for writer in self._writers:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@asynccontextmanager
async def hostile(talk: Talk) -> AsyncGenerator[Hostile]:
    serve = Hostile(talk)
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    serve.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    try:
        yield serve
    finally:
        server.close()
        await serve.hang_up()
        await server.wait_closed()


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Read until the other side gives up."""
    await reader.read(-1)


def answering(answer: bytes) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    return talk


pytestmark = pytest.mark.settings(callback_allow_private=True)


@asynccontextmanager
async def delivering(settings: Settings, seconds: float = PATIENCE) -> AsyncGenerator[Deliverer]:
    """Run the worker's part in callbacks as in production, except for its times. An attempt takes at most `seconds`."""
    stop = asyncio.Event()
    url, most = settings.redis_url, settings.max_in_flight
    async with await connect(url, timeout=settings.store_timeout, max_in_flight=most) as store:
        queue, breaker = CallbackQueue(store, unpack), Breaker(store, settings.limits.callback)
        caller = Caller(policy_of(settings), SystemResolver(), breaker, timeouts=AttemptTimeouts(total=seconds))
        sender = Sender(webhook_key(settings), caller, settings.public_url)
        deliverer = Deliverer(queue, sender, breaker, Schedule((0.1, 0.1)), Concurrency(), {})
        consumer = Consumer(store, "hooks", Callbacks(queue, settings.public_url, {}).handle)
        running = asyncio.gather(deliverer.run(stop), consumer.run(stop))
        try:
            yield deliverer
        finally:
            stop.set()
            await running


@pytest_asyncio.fixture
async def delivery(node: NodeUnderTest) -> AsyncIterator[CallbackQueue]:
    """Deliver callbacks while the test runs."""
    async with delivering(node.settings):
        yield CallbackQueue(node.store, unpack)


@pytest_asyncio.fixture
async def hasty_delivery(node: NodeUnderTest) -> AsyncIterator[CallbackQueue]:
    """Deliver callbacks while the test runs, with a short timeout."""
    async with delivering(node.settings, SOON):
        yield CallbackQueue(node.store, unpack)


async def asked(node: NodeUnderTest, url: str) -> str:
    """Return the id of a contract whose publisher gets a callback about its claim."""
    offer = {"publisher_id": "p", "title": "Translate a memo", "callback_url": url}
    task = (await node.client.post("/api/v1/tasks", json=offer)).json()
    await node.client.post(f"/api/v1/tasks/{task['id']}/claim", json={"assignee_id": "w"})
    return task["id"]


async def dead_letter(queue: CallbackQueue, task_id: str) -> DeadLetter:
    async with asyncio.timeout(PATIENCE):
        while True:
            for letter in await queue.dead():
                if letter.data["task_id"] == task_id:
                    return letter
            await asyncio.sleep(0.01)


async def last_failure(node: NodeUnderTest, task_id: str) -> tuple[int, bytes]:
    """Wait for a failed attempt. Returns the number of attempts so far, and the last failure."""
    partition = ids.partition_of_id(task_id)
    async with asyncio.timeout(PATIENCE):
        while True:
            names = await node.store.command("ZRANGE", keys.callbacks_due(partition), 0, -1)
            for name in names if isinstance(names, list) else ():
                assert isinstance(name, bytes)
                fields = fields_of(await node.store.command("HGETALL", keys.callback(partition, name.decode())))
                if b"reason" in fields:
                    return int(fields[b"attempt"]), fields[b"reason"]
            await asyncio.sleep(0.01)


async def test_a_redirect_is_not_followed(node: NodeUnderTest, delivery: CallbackQueue) -> None:
    async with Receiver(NodeKey.parse(SIGNING_KEY).public.raw) as inside:
        redirect = f"HTTP/1.1 307 X\r\nLocation: {inside.url}\r\nContent-Length: 0\r\n\r\n".encode()
        async with hostile(answering(redirect)) as receiver:
            letter = await dead_letter(delivery, await asked(node, receiver.url))
            assert (letter.attempts, letter.reason, receiver.dials) == (3, "answered 307", 3)
        assert inside.requests == 0


async def test_a_redirect_to_the_metadata_service_ends_as_a_dead_letter(
    node: NodeUnderTest, delivery: CallbackQueue
) -> None:
    async with hostile(answering(METADATA)) as receiver:
        letter = await dead_letter(delivery, await asked(node, receiver.url))
        assert (letter.reason, receiver.dials) == ("answered 302", 3)


async def test_silence_is_ended_and_tried_again(node: NodeUnderTest, hasty_delivery: CallbackQueue) -> None:
    async with hostile(silent) as receiver:
        task_id = await asked(node, receiver.url)
        attempts, reason = await last_failure(node, task_id)
        assert (attempts, reason) == (1, b"no answer within %g s" % SOON)
        letter = await dead_letter(hasty_delivery, task_id)
        assert (letter.attempts, receiver.dials) == (3, 3)


async def test_one_silent_receiver_does_not_hold_up_another(node: NodeUnderTest) -> None:
    async with (
        delivering(node.settings, 2 * PATIENCE),  # a silent attempt lasts longer than the test waits
        hostile(silent) as bad,
        Receiver(NodeKey.parse(SIGNING_KEY).public.raw, hosts=["127.0.0.2"]) as good,
    ):
        for _ in range(10):
            await asked(node, bad.url)
        await eventually(lambda: bad.dials > 1)
        await asked(node, good.url)
        await good.until(1)


async def test_a_target_that_has_become_private_is_dropped_and_never_dialled(node: NodeUnderTest) -> None:
    """The target was accepted when the operator still allowed it, or by an older version."""
    async with hostile(silent) as receiver:
        task_id = await asked(node, receiver.url)
        async with delivering(msgspec.structs.replace(node.settings, callback_allow_private=False)) as deliverer:
            await eventually(lambda: deliverer.outcomes["dropped"] == 1)
        assert receiver.dials == 0
        assert await node.store.command("ZCARD", keys.callbacks_due(ids.partition_of_id(task_id))) == 0
