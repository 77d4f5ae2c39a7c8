"""GET /health puts no load on Redis, however many clients ask."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from node.config import Settings
from node.observe.health import HealthApi
from node.share.capacity import Capacity
from node.store import Store, StoreUnavailable
from node.web.http import Request
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


@pytest.mark.parametrize(
    ("reused_for", "is_connected", "status"), [(60.0, True, 200), (60.0, False, 503), (0.0, True, 503)]
)
async def test_a_good_answer_is_reused_for_a_moment_and_not_without_a_connection(
    monkeypatch: pytest.MonkeyPatch, reused_for: float, is_connected: bool, status: int
) -> None:
    answers = iter(("always",))

    async def read(_store: Store) -> str:
        for answer in answers:
            return answer
        raise StoreUnavailable("gone")

    monkeypatch.setattr("node.observe.health.HEALTH_SECONDS", reused_for)
    monkeypatch.setattr("node.observe.health.read", read)
    redis = SimpleNamespace(connected=True)
    store, request = cast("Store", redis), cast("Request", None)
    health = HealthApi(store, Settings(), Capacity())
    assert (await health.get_health(request)).status == 200
    redis.connected = is_connected
    assert (await health.get_health(request)).status == status
