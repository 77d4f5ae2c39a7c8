"""GET /health is no load on Redis, however many ask."""

import asyncio

import pytest

from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import Cluster, RedisServer


async def test_who_asks_at_the_same_time_shares_the_look_at_redis(
    node: NodeUnderTest, empty_redis: RedisServer | Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.observe.health.HEALTH_SECONDS", 0)

    def calls() -> int:
        return empty_redis.info("commandstats").get("cmdstat_config|get", {"calls": 0})["calls"]

    before = calls()
    assert (await node.client.get("/health")).status_code == 200
    one_look = calls() - before
    assert one_look > 0
    answers = await asyncio.gather(*(node.client.get("/health") for _ in range(50)))
    assert [answer.json()["status"] for answer in answers] == ["ok"] * 50
    assert calls() - before <= 3 * one_look
