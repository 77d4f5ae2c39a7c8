"""How many contracts the clients of one site may claim."""

from typing import Any

import pytest

from node.config import Limit, Limits
from node.share.site import SITE_SHARE
from tests.support.node_under_test import NodeUnderTest
from tests.tasks.calls import TASKS, offered


@pytest.mark.settings(limits=Limits(claim=Limit(1, 60)))
async def test_one_site_does_not_claim_all_that_is_on_offer(node: NodeUnderTest) -> None:
    """Otherwise somebody with a /48 could take thousands of contracts a minute. Those that others claimed first do not
    count.
    """
    tasks = [await offered(node) for _ in range(SITE_SHARE + 2)]

    async def claim(task: dict[str, Any], address: str) -> int:
        async with node.client_at(address) as client:
            return (await client.post(f"{TASKS}/{task['id']}/claim", json={"assignee_id": "greedy-agent"})).status_code

    statuses = [await claim(task, f"2001:db8:1:{number:x}::1") for number, task in enumerate(tasks[:SITE_SHARE])]
    assert statuses == [200] * SITE_SHARE
    assert await claim(tasks[-2], "2001:db8:1:ffff::1") == 429
    assert await claim(tasks[0], "2001:db8:2::1") == 409
    assert await claim(tasks[-2], "2001:db8:2::1") == 200
    assert await claim(tasks[-1], "203.0.113.9") == 200
