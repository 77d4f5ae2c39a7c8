"""A worker keeps doing its other work, whatever happens to one of its tasks."""

from typing import cast

import pytest

from node.common import counters
from node.sign.node_key import NodeKey
from node.store import ids, keys
from node.store.decoding import flat_of
from node.store.heartbeats import living
from tests.callbacks.receiver import Receiver
from tests.support.node_under_test import SIGNING_KEY, NodeUnderTest, until
from tests.support.servers import eventually
from tests.tasks.calls import offered

pytestmark = pytest.mark.settings(callback_allow_private=True, embedding_model="none")


async def test_a_contract_that_cannot_be_read_stops_nothing(node: NodeUnderTest) -> None:
    """The task that meets it must not fail, restart and fail again until the worker ends."""
    counters.RESTARTS.clear()
    task_id = (await offered(node))["id"]
    broken, leases = keys.task(task_id), keys.leases(ids.partition_of_id(task_id))
    async with node.worker():
        # A value of another type, on which every step of the contract fails. No client can cause this.
        await node.store.command("DEL", broken)
        await node.store.command("SET", broken, "no contract")
        await _make_due(node, task_id)

        async def is_put_off() -> bool:
            return float(cast("bytes", await node.store.command("ZSCORE", leases, task_id))) > 1

        await until(is_put_off)
        sound = await offered(node, deadline="2099-12-31T00:00:00Z")
        await node.store.command("HSET", keys.task(sound["id"]), "deadline", 1)
        await _make_due(node, sound["id"])

        async def is_listed() -> bool:
            return await node.store.command("ZSCORE", keys.tasks_with("expired"), sound["id"]) is not None

        await until(is_listed)
    assert not counters.RESTARTS["leases"]


async def _make_due(node: NodeUnderTest, task_id: str) -> None:
    await node.store.command("ZADD", keys.leases(ids.partition_of_id(task_id)), 1, task_id)


async def test_a_callback_that_cannot_be_read_or_settled_holds_up_no_other(node: NodeUnderTest) -> None:
    """If the worker ended, everything it had taken would be due again at once, and the next worker would end, too."""
    async with Receiver(NodeKey.parse(SIGNING_KEY).public.raw) as receiver:
        task_id = (await offered(node, callback_url=receiver.url))["id"]
        await node.client.post(f"/api/v1/tasks/{task_id}/claim", json={"assignee_id": "w"})
        home = ids.partition_of_id(task_id)
        due = keys.callbacks_due(home)
        # A hash that has lost fields, and a message of a type that only a later version knows.
        await node.store.command("HSET", keys.callback(home, "torn"), "attempt", 0)
        later = {"id": "msg_1", "at": 1, "url": receiver.url, "type": "later", "data": '{"later_id":"x"}'}
        state = {"attempt": 0, "misses": 0, "since": 1}
        await node.store.command("HSET", keys.callback(home, "later"), *flat_of(later | state))
        await node.store.command("ZADD", due, 0, "torn", 0, "later")
        async with node.worker():
            await receiver.until(1)
            assert await node.store.command("ZSCORE", due, "torn") is not None
            assert await node.store.command("ZSCORE", due, "later") is not None


async def test_an_error_of_redis_ends_no_part_of_the_worker_for_good(node: NodeUnderTest) -> None:
    """`serve` would start a worker again, but other supervisors might not."""
    counters.RESTARTS.clear()
    async with Receiver(NodeKey.parse(SIGNING_KEY).public.raw) as receiver:
        task = await offered(node, callback_url=receiver.url)
        elsewhere = (ids.partition_of_id(task["id"]) + 1) % ids.PARTITIONS
        broken = {
            keys.WORKERS: "heartbeat",
            keys.events(elsewhere): "events:lists",
            keys.callbacks_due(elsewhere): "callbacks",
            keys.agents_due(elsewhere): "checks",
        }
        for key in broken:
            await node.store.command("SET", key, "of another type", "EX", 600)
        await node.store.command("DEL", keys.tasks_with("offered"))
        async with node.worker():

            async def is_listed() -> bool:
                return await node.store.command("ZSCORE", keys.tasks_with("offered"), task["id"]) is not None

            async def has_a_heartbeat() -> bool:
                return await living(node.store) == 1

            await eventually(lambda: all(counters.RESTARTS[name] >= 2 for name in broken.values()))
            await until(is_listed)  # the contract's events are in another outbox
            for key in broken:
                await node.store.command("DEL", key)
            await until(has_a_heartbeat)
            await node.client.post(f"/api/v1/tasks/{task['id']}/claim", json={"assignee_id": "w"})
            await receiver.until(1)
