"""What becomes of a callback when Redis goes away at some point of its delivery, and of one that is never delivered."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from node.callbacks.attempt import AttemptResult
from node.callbacks.breaker import Breaker, circuit_of
from node.callbacks.call import Caller
from node.callbacks.concurrency import Concurrency
from node.callbacks.envelope import Envelope
from node.callbacks.owners import Requester, site_part
from node.callbacks.queue import Callback, CallbackMessage, CallbackQueue
from node.callbacks.resolve import SystemResolver
from node.callbacks.sender import Sender
from node.callbacks.service import Deliverer
from node.callbacks.sources import PreparedCallback
from node.callbacks.target import Target, TargetPolicy, parse
from node.config import Limit, Schedule
from node.sign.node_key import NodeKey
from node.store import StoreUnavailable, keys
from node.tasks.compaction import unpack
from tests.callbacks.receiver import Receiver
from tests.support.node_under_test import SIGNING_KEY, NodeUnderTest
from tests.support.servers import PATIENCE, eventually

KEY = NodeKey.parse(SIGNING_KEY)
KIND = "board.reply"
POLICY = TargetPolicy(allow_private=True)
PARTITION = 5
PUBLISHER = "somebody"

pytestmark = pytest.mark.settings(embedding_model="none")


def message(url: str, number: int = 1) -> CallbackMessage:
    return CallbackMessage("name", f"msg_{number}", url, KIND, number, {"thread_id": "t", "seq": number, "url": "u"})


class Source:
    """A source of callbacks about nothing."""

    def __init__(self, *, following: CallbackMessage | None = None, pause_ms: int = 0) -> None:
        self._following = following
        self.pause_ms = pause_ms

    async def prepare(self, callback: Callback, host: str) -> PreparedCallback:
        envelope = Envelope.of(callback.id, callback.type, callback.at, callback.data, host=host)
        return PreparedCallback(PUBLISHER, envelope, self._following)

    async def forget(self, callback: Callback) -> None:
        raise AssertionError(callback)


class AwayAfterwards(Breaker):
    """A breaker that Redis leaves alone once a call has ended."""

    async def note(self, target: Target, requester: Requester, result: AttemptResult, *, works: bool) -> None:
        raise StoreUnavailable("away")


class FullQueue(CallbackQueue):
    """A queue that takes one message, and nothing that follows it."""

    has_one = False

    async def enqueue(self, partition: int, messages: Sequence[CallbackMessage], pause_ms: int = 0) -> None:
        if self.has_one:
            raise StoreUnavailable("away")
        await super().enqueue(partition, messages, pause_ms)
        self.has_one = True


@asynccontextmanager
async def delivering(queue: CallbackQueue, breaker: Breaker, source: Source) -> AsyncGenerator[Deliverer]:
    """Deliver what is in the queue, with two retries at once, until the block ends."""
    stop, sender = asyncio.Event(), Sender(KEY, Caller(POLICY, SystemResolver(), breaker), "https://node.example")
    deliverer = Deliverer(queue, sender, breaker, Schedule((0, 0)), Concurrency(), {KIND: source})
    running = asyncio.create_task(deliverer.run(stop))
    try:
        yield deliverer
    finally:
        stop.set()
        await asyncio.wait_for(running, PATIENCE)


@pytest.fixture(autouse=True)
def look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the deliverer look for due callbacks all the time."""
    monkeypatch.setattr("node.callbacks.queue.POLL_SECONDS", 0.01)


async def queued(node: NodeUnderTest) -> Any:
    return await node.store.command("ZRANGE", keys.callbacks_due(PARTITION), 0, -1)


async def test_what_a_receiver_has_is_not_sent_again_if_redis_goes_away_then(node: NodeUnderTest) -> None:
    queue = CallbackQueue(node.store, unpack)
    async with Receiver(KEY.public.raw) as receiver:
        await queue.enqueue(PARTITION, [message(receiver.url)])
        async with delivering(queue, AwayAfterwards(node.store, Limit(0, 1)), Source()):
            await receiver.until(1)
        assert await queued(node) == []


async def test_what_follows_a_callback_is_not_lost_if_redis_goes_away_then(node: NodeUnderTest) -> None:
    queue = FullQueue(node.store, unpack)
    async with Receiver(KEY.public.raw) as receiver:
        await queue.enqueue(PARTITION, [message(receiver.url)])
        source = Source(following=message(receiver.url, 2))
        async with delivering(queue, Breaker(node.store, Limit(0, 1)), source):
            await receiver.until(1)
        assert await queued(node) == [b"name"], "sent again, and what follows is told then"


async def test_a_receiver_that_refuses_what_it_gets_is_not_taken_for_one_that_works_again(node: NodeUnderTest) -> None:
    queue, breaker = CallbackQueue(node.store, unpack), Breaker(node.store, Limit(0, 1))
    async with Receiver(KEY.public.raw, lambda number: 400 if number else 500) as receiver:
        await queue.enqueue(PARTITION, [message(receiver.url)])
        async with delivering(queue, breaker, Source()) as deliverer:
            await eventually(lambda: deliverer.outcomes["dead"])
        circuit = circuit_of(parse(receiver.url, POLICY), Requester(PUBLISHER, "name"))
        assert await node.store.command("GET", circuit.failures) == b"1"


async def test_what_happens_during_a_delivery_is_told_after_the_pause(node: NodeUnderTest) -> None:
    queue = CallbackQueue(node.store, unpack)

    class Busy(Source):
        async def prepare(self, callback: Callback, host: str) -> PreparedCallback:
            await queue.enqueue(PARTITION, [message(callback.url, 2)])
            return await super().prepare(callback, host)

    async with Receiver(KEY.public.raw) as receiver:
        await queue.enqueue(PARTITION, [message(receiver.url)])
        async with delivering(queue, Breaker(node.store, Limit(0, 1)), Busy(pause_ms=3_600_000)) as deliverer:
            await eventually(lambda: deliverer.outcomes["delivered"])
        due, sent = await node.store.run_all(
            [
                ("ZSCORE", keys.callbacks_due(PARTITION), "name"),
                ("HGET", keys.callback(PARTITION, "name"), "sent_at"),
            ]
        )
    assert isinstance(due, bytes) and isinstance(sent, bytes)
    assert int(due) == int(sent) + 3_600_000


@pytest.mark.parametrize(("bound", "most"), [("MAX_WAIT_MS", -1), ("MAX_TURN_MS", 1)])
async def test_what_has_waited_or_would_wait_too_long_is_kept_as_its_publishers(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    """Otherwise a publisher whose callbacks are never sent would push out the dead letters of others."""
    monkeypatch.setattr(f"node.callbacks.service.{bound}", most)
    queue, breaker, url = CallbackQueue(node.store, unpack), Breaker(node.store, Limit(0, 1)), "http://127.0.0.1:9/"
    await breaker.pause(circuit_of(parse(url, POLICY), Requester(PUBLISHER, "name")), 60)
    await queue.enqueue(PARTITION, [message(url)])
    async with delivering(queue, breaker, Source()) as deliverer:
        await eventually(lambda: deliverer.outcomes["dead"])
    (letter,) = await queue.dead()
    kept = keys.callbacks_dead_of(PARTITION, site_part(PUBLISHER))
    assert await node.store.command("LRANGE", kept, 0, -1) == [letter.entry.encode()]
