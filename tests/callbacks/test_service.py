"""A callback that the node itself cannot send, whatever the reason."""

import asyncio

import pytest

from node.callbacks.breaker import Breaker
from node.callbacks.call import Caller
from node.callbacks.concurrency import Concurrency
from node.callbacks.queue import Callback, CallbackMessage, CallbackQueue
from node.callbacks.resolve import SystemResolver
from node.callbacks.sender import Sender
from node.callbacks.service import Deliverer
from node.callbacks.sources import PreparedCallback
from node.callbacks.target import TargetPolicy
from node.config import Limit, Schedule
from node.sign.node_key import NodeKey
from node.tasks.compaction import unpack
from tests.support.node_under_test import SIGNING_KEY, NodeUnderTest
from tests.support.servers import PATIENCE, eventually

KIND = "board.reply"


class Failing:
    """A source that has a fault."""

    pause_ms = 0

    async def prepare(self, callback: Callback, host: str) -> PreparedCallback:
        raise ValueError(callback.id)

    async def forget(self, callback: Callback) -> None:
        raise AssertionError(callback)


@pytest.mark.settings(embedding_model="none")
async def test_what_the_node_fails_to_send_is_given_up_in_the_end(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would be taken again and again for ever, since nobody counts its attempts."""
    monkeypatch.setattr("node.callbacks.queue.POLL_SECONDS", 0.01)
    queue, breaker, stop = CallbackQueue(node.store, unpack), Breaker(node.store, Limit(0, 1)), asyncio.Event()
    caller = Caller(TargetPolicy(allow_private=True), SystemResolver(), breaker)
    sender = Sender(NodeKey.parse(SIGNING_KEY), caller, "https://node.example")
    deliverer = Deliverer(queue, sender, breaker, Schedule((0, 0)), Concurrency(), {KIND: Failing()})
    data = {"thread_id": "t", "seq": 1, "url": "u"}
    await queue.enqueue(5, [CallbackMessage("name", "msg_1", "http://127.0.0.1:9/", KIND, 1, data)])
    running = asyncio.create_task(deliverer.run(stop))
    await eventually(lambda: deliverer.outcomes["dead"])
    stop.set()
    await asyncio.wait_for(running, PATIENCE)
    assert deliverer.outcomes == {"retry": 2, "dead": 1}
    (letter,) = await queue.dead()
    assert (letter.attempts, letter.reason) == (3, "an error of the node, see its log")
