"""Metrics, commands and logs are true: no false alarm for lack of a permission, none after a clean stop."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from node.callbacks.queue import overdue_ms
from node.cli import main
from node.config import Settings
from node.observe.metrics.gauges import Gauges
from node.observe.metrics.snapshots import Reading
from node.store import Store, connect, keys
from node.store.clock import now_ms
from tests.support.node_under_test import NodeUnderTest, until
from tests.support.nodes import NodeProcess
from tests.support.servers import RedisServer, free_port


@pytest_asyncio.fixture
async def redis(tmp_path: Path) -> AsyncIterator[RedisServer]:
    with RedisServer(tmp_path / "redis", "--appendonly", "yes", "--appendfsync", "everysec") as server:
        yield server


def by_name(readings: list[Reading]) -> dict[tuple[str, tuple[str, ...]], float]:
    return {(reading.family, reading.labels): reading.value for reading in readings}


async def figures(store: Store, **settings: object) -> dict[tuple[str, tuple[str, ...]], float]:
    return by_name(await Gauges(Settings(**settings), store).read())  # type: ignore[arg-type]


async def test_durability_is_that_of_the_redis_in_use(redis: RedisServer) -> None:
    async with await connect(redis.url, timeout=2, max_in_flight=4096) as store:
        found = await figures(store, durability="always")
        assert [labels[2] for family, labels in found if family == "relay_build_info"] == ["everysec"]
        assert found["relay_durability_kept", ()] == 0
        assert (await figures(store, durability="everysec"))["relay_durability_kept", ()] == 1


async def test_a_user_who_may_not_call_info_does_not_look_like_a_lost_redis(redis: RedisServer) -> None:
    redis.do("ACL", "SETUSER", "node", "on", ">word", "~*", "&*", "+@all", "-@dangerous", "-@admin")
    async with await connect(redis.url.replace("unix://", "unix://node:word@"), timeout=2, max_in_flight=4096) as store:
        gauges = Gauges(Settings(), store)
        with capture_logs() as logs:
            _, readings = [await gauges.read() for _ in range(2)]
        found = by_name(readings)
        assert len(logs) == len({line["reason"] for line in logs}) > 0, "each refusal is logged once"
        assert found["relay_store_up", ()] == 1
        assert found["relay_tasks", ("offered",)] == 0
        assert not [family for family, _ in found if family.startswith("relay_redis_")]
        assert "relay_durability_kept" not in {family for family, _ in found}


async def test_what_the_node_holds_is_shown_beside_its_limit(node: NodeUnderTest) -> None:
    assert (await node.client.post("/api/v1/sessions", json={"ttl_seconds": 600})).status_code == 201
    async with await connect(node.settings.redis_url, timeout=2, max_in_flight=4096) as store:
        found = await figures(store, max_sessions=7)
    assert (found["relay_kept", ("session",)], found["relay_kept_limit", ("session",)]) == (1, 7)
    assert not [family for family, _ in found if family.startswith(("relay_search_store", "relay_search_memory"))], (
        "the index is in the same Redis, whose memory is shown already"
    )
    assert found["relay_clock_skew_seconds", ()] < 1


async def test_each_figure_is_that_of_its_source(node: NodeUnderTest, redis: RedisServer) -> None:
    async def of_a_feature() -> list[Reading]:
        return [Reading("relay_agents", ("open",), 2)]

    for partition in (1, 2):
        await node.store.command("ZADD", keys.reports(partition), 1, f"thread:{partition}")
        await node.store.command("ZADD", keys.callbacks_due(partition), 1, f"callback:{partition}")
    redis.do("CONFIG", "SET", "maxmemory", str(2**28))
    async with (
        await connect(redis.url, timeout=2, max_in_flight=64) as documents,
        await connect(node.settings.redis_url, timeout=2, max_in_flight=4096) as store,
    ):
        settings = Settings(redis_maxmemory=2**30)
        gauges = Gauges(settings, store, [of_a_feature], documents)
        found = by_name(await gauges.read())
        assert found["relay_agents", ("open",)] == 2
        assert (found["relay_callbacks_queued", ()], found["relay_callbacks_dead", ()]) == (2, 0)
        assert found["relay_reports_waiting", ()] == 2
        assert found["relay_redis_memory_limit_bytes", ("0",)] == 2**30
        assert (found["relay_search_store_up", ()], found["relay_search_memory_limit_bytes", ()]) == (1, 2**28)
        redis.kill()
        found = by_name(await gauges.read())
        assert (found["relay_store_up", ()], found["relay_search_store_up", ()]) == (1, 0)


@pytest.mark.parametrize("ahead", [-3.5, 3.5])
async def test_clocks_differ_whichever_is_ahead(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    async def skew(_store: Store) -> float:
        return ahead

    monkeypatch.setattr("node.observe.metrics.gauges.skew", skew)
    async with await connect(node.settings.redis_url, timeout=2, max_in_flight=4096) as store:
        assert (await figures(store))["relay_clock_skew_seconds", ()] == 3.5


async def test_a_callback_is_overdue_from_when_it_is_due(node: NodeUnderTest) -> None:
    now = await now_ms(node.store)
    assert await overdue_ms(node.store) == 0
    await node.store.command("ZADD", keys.callbacks_due(1), now + 600_000, "callback:later")
    assert await overdue_ms(node.store) == 0
    await node.store.command("ZADD", keys.callbacks_due(2), now - 200_000, "callback:1", now - 100_000, "callback:2")
    await node.store.command("ZADD", keys.callbacks_due(3), now - 90_000, "callback:3")
    assert await overdue_ms(node.store) >= 200_000


async def test_a_backup_has_an_age_once_it_is_whole(node: NodeUnderTest) -> None:
    age = ("relay_backup_age_seconds", ())
    async with await connect(node.settings.redis_url, timeout=2, max_in_flight=4096) as store:
        assert age not in await figures(store)
        await node.store.command("SET", keys.LAST_BACKUP, await now_ms(node.store) - 50_000)
        assert (await figures(store))[age] >= 50


async def test_a_worker_that_stops_by_itself_is_not_missed(node: NodeUnderTest) -> None:
    async def workers() -> int:
        return cast("int", await node.store.command("ZCARD", keys.WORKERS))

    async with node.worker():
        await until(workers)
    assert await workers() == 0


def test_an_operators_command_without_a_right_says_so(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    redis.do("ACL", "SETUSER", "node", "on", ">word", "~*", "&*", "+@all", "-@dangerous", "-@admin")
    monkeypatch.setenv("RELAY_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("RELAY_REDIS_URL", redis.url.replace("unix://", "unix://node:word@"))
    assert main(["admin", "status"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("relay-node: Redis refuses a command")


def test_a_node_begins_with_what_matters_and_each_line_says_who_wrote_it(tmp_path: Path) -> None:
    port = free_port()
    with NodeProcess(tmp_path) as node:
        node.start(RELAY_SECRET="8Jw2nQ0f3vX6hT1yLr5uKc9sPz7dGm4bEaWxVoNiRtU=", RELAY_ADMIN_PORT=str(port)).ready()
        started = node.line("starting", role="serve")
        assert (started["redis"], started["durability"], started["data_dir"]) == ("embedded", "always", str(tmp_path))
        parts = [node.line("starting", role=role) for role in ("worker", "web")]
        # The supervisor has the admin port, so the other processes must not report theirs, which is 0.
        assert started["admin_port"] == port
        assert not [part for part in parts if "admin_port" in part]
    assert all({"pid", "role", "version"} <= line.keys() for line in node.lines)
    assert "8Jw2nQ0f3vX6hT1yLr5uKc9s" not in json.dumps(node.lines)
