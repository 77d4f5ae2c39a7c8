"""How many replies the clients of one site may add to a thread."""

import pytest

from node.config import Limit, Limits
from node.share.site import SITE_SHARE
from tests.board.calls import BOARD, answered
from tests.support.node_under_test import NodeUnderTest


@pytest.mark.settings(limits=Limits(reply=Limit(2, 60)))
async def test_one_site_does_not_bury_a_thread(node: NodeUnderTest) -> None:
    """Otherwise somebody with a /48 could add hundreds of replies a second to the thread of another."""
    thread, other = await answered(node), await answered(node)

    async def reply(to: str, address: str) -> int:
        async with node.client_at(address) as client:
            return (await client.post(f"{BOARD}/{to}/replies", json={"body": "I can help"})).status_code

    taken = [await reply(thread, f"2001:db8:1:{number % SITE_SHARE:x}::1") for number in range(2 * SITE_SHARE)]
    assert taken == [201] * 2 * SITE_SHARE
    assert await reply(thread, "2001:db8:1:ffff::1") == 429
    assert await reply(thread, "2001:db8:2::1") == 201
    assert await reply(other, "2001:db8:1:ffff::1") == 201
