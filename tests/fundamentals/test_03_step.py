"""3. Changes that belong together are one step, a Lua script: either all of them happen or none."""

import asyncio

from node.store import ids, keys
from tests.support.node_under_test import NodeUnderTest
from tests.tasks.calls import act, offered


async def test_of_many_claims_at_the_same_moment_exactly_one_wins(node: NodeUnderTest) -> None:
    task = await offered(node)
    claims = await asyncio.gather(*(act(node, task, "claim", assignee_id=f"worker-{n}") for n in range(20)))
    assert sorted(claim.status_code for claim in claims) == [200] + [409] * 19


async def test_a_message_over_the_limit_leaves_nothing_behind(node: NodeUnderTest) -> None:
    for number in range(10):
        await node.client.post("/api/v1/relay", json={"message": f"Report number {number} is ready to be read."})
    before = await node.names("thread:*")
    refused = await node.client.post("/api/v1/relay", json={"message": "Report number eleven is ready to be read."})
    assert refused.status_code == 429
    assert await node.names("thread:*") == before


async def test_a_write_and_the_event_that_tells_of_it_are_one_step(node: NodeUnderTest) -> None:
    task = await offered(node)
    outbox = keys.events(ids.partition_of_id(task["id"]))
    assert task["id"].encode() in str(await node.store.command("XRANGE", outbox, "-", "+")).encode()
