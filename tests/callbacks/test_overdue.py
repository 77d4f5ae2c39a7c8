"""A worker that stalled after it had taken a callback: another worker may have sent that callback and a newer one
since.
"""

import asyncio

import pytest

from node.callbacks import queue
from node.callbacks.breaker import Breaker
from node.callbacks.call import Caller
from node.callbacks.concurrency import Concurrency
from node.callbacks.envelope import Envelope
from node.callbacks.queue import Callback, CallbackMessage, CallbackQueue
from node.callbacks.resolve import SystemResolver
from node.callbacks.sender import Sender
from node.callbacks.service import Deliverer
from node.callbacks.sources import PreparedCallback
from node.callbacks.target import TargetPolicy
from node.config import Limit, Schedule
from node.sign.node_key import NodeKey
from node.tasks.compaction import unpack
from tests.callbacks.receiver import Receiver
from tests.support.node_under_test import SIGNING_KEY, NodeUnderTest

KEY = NodeKey.parse(SIGNING_KEY)
KIND = "board.reply"


class Slow:
    """A source that stalls after its first callback is taken, until other workers may take that callback."""

    pause_ms = 0

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._hidden_ms = queue.HIDDEN_MS
        monkeypatch.setattr(queue, "HIDDEN_MS", 50)
        self.prepared = 0

    async def prepare(self, callback: Callback, host: str) -> PreparedCallback:
        self.prepared += 1
        if self.prepared == 1:
            self._monkeypatch.setattr(queue, "HIDDEN_MS", self._hidden_ms)
            seconds = callback.ours_until - asyncio.get_running_loop().time()
            await asyncio.sleep(max(0.0, seconds) + 0.001)  # one timer tick more, to be later than that
        return PreparedCallback(
            "somebody", Envelope.of(callback.id, callback.type, callback.at, callback.data, host=host)
        )

    async def forget(self, callback: Callback) -> None:
        raise AssertionError(callback)


pytestmark = pytest.mark.settings(embedding_model="none")


async def test_what_was_taken_too_long_ago_is_left_to_others(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would be sent after a newer one of its name, which another worker has sent meanwhile."""
    callbacks, source, stop = CallbackQueue(node.store, unpack), Slow(monkeypatch), asyncio.Event()
    breaker = Breaker(node.store, Limit(0, 1))
    sender = Sender(KEY, Caller(TargetPolicy(allow_private=True), SystemResolver(), breaker), "https://node.example")
    deliverer = Deliverer(callbacks, sender, breaker, Schedule((60,)), Concurrency(), {KIND: source})
    async with Receiver(KEY.public.raw) as receiver:
        data = {"thread_id": "t", "seq": 1, "url": "u"}
        message = CallbackMessage("name", "msg_1", receiver.url_at("/"), KIND, 1, data)
        await callbacks.enqueue(5, [message])
        running = asyncio.create_task(deliverer.run(stop))
        await receiver.until(1)
        stop.set()
        await running
        assert (source.prepared, receiver.requests) == (2, 1)
    assert deliverer.outcomes == {"delivered": 1}
