"""What a worker goes on doing, whatever becomes of one of its tasks."""

from node.common import counters
from node.store import ids, keys
from tests.support.node_under_test import NodeUnderTest, until
from tests.tasks.calls import offered


async def test_a_contract_that_cannot_be_read_stops_nothing_but_what_looks_at_it(node: NodeUnderTest) -> None:
    """The worker ended, was started again, and ended again: nothing of its work was ever done with."""
    counters.RESTARTS.clear()
    broken = keys.task((await offered(node))["id"])
    async with node.worker():
        # What no client can do: a value of another type, which every step on the contract fails on.
        await node.store.command("DEL", broken)
        await node.store.command("SET", broken, "no contract")
        await _make_due(node, broken.rpartition(":")[2])

        async def has_failed_twice() -> bool:
            return counters.RESTARTS.get("leases", 0) >= 2

        await until(has_failed_twice)
        sound = await offered(node, deadline="2099-12-31T00:00:00Z")
        await node.store.command("HSET", keys.task(sound["id"]), "deadline", 1)
        await _make_due(node, sound["id"])

        async def is_listed() -> bool:
            return await node.store.command("ZSCORE", keys.tasks_with("expired"), sound["id"]) is not None

        await until(is_listed)


async def _make_due(node: NodeUnderTest, task_id: str) -> None:
    await node.store.command("ZADD", keys.leases(ids.partition_of_id(task_id)), 1, task_id)
