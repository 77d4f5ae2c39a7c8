"""Pending callbacks to a failing receiver take no more memory than is charged to the clients who cause them."""

from typing import cast

import pytest

from node.share.cost import COSTS
from node.store import ids, keys
from tests.support.limits import every_limit
from tests.support.node_under_test import NodeUnderTest, until
from tests.tasks.calls import act, offered

TIMES = 50

pytestmark = pytest.mark.settings(limits=every_limit(1000, 1), callback_allow_private=True)


async def test_who_claims_and_releases_is_charged_for_the_callbacks_that_tell_of_it(node: NodeUnderTest) -> None:
    task = await offered(node, callback_url="http://127.0.0.1:9/hooks/contracts")
    partition = ids.partition_of_id(task["id"])

    async def claim_and_release(times: int) -> int:
        """Return how many bytes were charged for it."""
        charged = 0
        for _ in range(times):
            claim = await act(node, task, "claim", assignee_id="ann")
            begun = await act(node, task, "transition", actor_id="ann")
            released = await act(node, task, "release", claim_token=claim.json()["claim_token"])
            assert released.status_code == 200, released.text
            charged += COSTS["claim"].of(len(claim.request.content)) + COSTS["step"].of(len(begun.request.content))
        return charged

    async def used(callbacks: int) -> int:
        """Return the memory that the callbacks take, once this many are pending."""

        async def all_wait() -> bool:
            return await node.store.command("ZCARD", keys.callbacks_due(partition)) == callbacks

        await until(all_wait)
        names = await node.names("callback*")
        sizes = [await node.store.command("MEMORY", "USAGE", each, "SAMPLES", 0, key=each) for each in names]
        return sum(cast("list[int]", sizes))

    async with node.worker():
        await claim_and_release(TIMES)
        before = await used(3 * TIMES)
        charged = await claim_and_release(TIMES)
        assert await used(6 * TIMES) - before < charged
