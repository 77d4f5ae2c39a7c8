"""Callbacks that wait for their turn: for how long they may, and what does not count as waiting."""

import asyncio
from typing import cast

import pytest

from node.callbacks.breaker import Breaker
from node.callbacks.call import Caller
from node.callbacks.concurrency import Concurrency
from node.callbacks.envelope import Envelope
from node.callbacks.queue import Callback, CallbackMessage, CallbackQueue
from node.callbacks.resolve import SystemResolver
from node.callbacks.sender import Sender
from node.callbacks.service import MAX_WAIT_MS, Deliverer
from node.callbacks.sources import PreparedCallback
from node.callbacks.target import TargetPolicy
from node.config import Limit, Schedule
from node.sign.node_key import NodeKey
from node.store import keys
from node.store.clock import now_ms
from node.store.limits import DAY_MS
from node.tasks.compaction import unpack
from tests.callbacks.network import unlimited
from tests.callbacks.receiver import Receiver
from tests.support.node_under_test import SIGNING_KEY, NodeUnderTest, until

HOME = 5
KIND = "board.reply"
KEY = NodeKey.parse(SIGNING_KEY)
NAMES = ("one", "another")

pytestmark = pytest.mark.settings(embedding_model="none")


class Everything:
    """A source with a body for every callback."""

    pause_ms = 0

    async def prepare(self, callback: Callback, host: str) -> PreparedCallback:
        return PreparedCallback(
            "somebody", Envelope.of(callback.id, callback.type, callback.at, callback.data, host=host)
        )

    async def forget(self, callback: Callback) -> None:
        raise AssertionError(callback)


async def outcomes(node: NodeUnderTest, seconds: int = 60, **kept: int) -> dict[str, int]:
    """Return how attempts end for two callbacks to a host that may be called once in `seconds` seconds. `kept` are the
    callbacks' fields in Redis.
    """
    queue = CallbackQueue(node.store, unpack)
    sender = Sender(
        KEY, Caller(TargetPolicy(allow_private=True), SystemResolver(), unlimited()), "https://node.example"
    )
    breaker = Breaker(node.store, Limit(1, seconds), Limit(0, 1))
    deliverer = Deliverer(queue, sender, breaker, Schedule((60,)), Concurrency(), {KIND: Everything()})

    async def attempted() -> bool:
        waiting = await node.store.command("ZRANGE", keys.callbacks_due(HOME), "-inf", "+inf", "BYSCORE")
        waited = [await node.store.command("HGET", keys.callback(HOME, name), "waited") for name in NAMES]
        return not waiting or any(int(cast("bytes", each or b"0")) % MAX_WAIT_MS > 1 for each in waited)

    async with Receiver(KEY.public.raw) as receiver:
        for name in NAMES:
            told = {"thread_id": name, "seq": 1, "url": "u"}
            await queue.enqueue(HOME, [CallbackMessage(name, f"msg_{name}", receiver.url_at("/"), KIND, 1, told)])
            for field, value in kept.items():
                await node.store.command("HSET", keys.callback(HOME, name), field, value)
        stop = asyncio.Event()
        running = asyncio.create_task(deliverer.run(stop))
        await until(attempted)
        stop.set()
        await running
        return dict(deliverer.outcomes)


async def test_what_fell_due_while_no_worker_ran_waits_for_its_turn(node: NodeUnderTest) -> None:
    """Otherwise all but the first are given up, as if their receiver had failed for as long as the node was off."""
    assert await outcomes(node, since=await now_ms(node.store) - 40 * DAY_MS) == {"delivered": 1}


async def test_what_has_waited_for_two_days_is_given_up(node: NodeUnderTest) -> None:
    assert await outcomes(node, waited=MAX_WAIT_MS + 1) == {"delivered": 1, "dead": 1}


@pytest.mark.parametrize(("seconds", "ends"), [(3500, {"delivered": 1}), (3700, {"delivered": 1, "dead": 1})])
async def test_what_would_have_to_wait_for_longer_than_an_hour_is_given_up(
    node: NodeUnderTest, seconds: int, ends: dict[str, int]
) -> None:
    assert await outcomes(node, seconds) == ends
