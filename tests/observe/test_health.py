"""GET /health is no load on Redis, however many ask."""

import asyncio

from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import RedisServer


async def test_who_asks_at_the_same_time_shares_the_look_at_redis(
    node: NodeUnderTest, shared_redis: RedisServer
) -> None:
    shared_redis.do("CONFIG", "RESETSTAT")
    answers = await asyncio.gather(*(node.client.get("/health") for _ in range(50)))
    assert [answer.json()["status"] for answer in answers] == ["ok"] * 50
    stats = shared_redis.info("commandstats")
    assert 1 <= stats["cmdstat_config|get"]["calls"] <= 2
