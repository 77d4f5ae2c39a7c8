"""The durability of a Redis is read from its servers and reported truly, even if it is less than promised
(DESIGN 10).
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import structlog.testing

from node.admin.check import Finding, server_findings
from node.config import Settings
from node.store import Arg, RedisReply, durability
from node.store.address import locate
from node.store.durability import SETTINGS, Kept, kept, read, suffices
from node.store.link import consult
from tests.cluster.conftest import TIMEOUT
from tests.store.conftest import Opener
from tests.support.node_under_test import running, settings_for, until
from tests.support.servers import Cluster, RedisServer, eventually

SAFE = {
    "appendonly": "yes",
    "appendfsync": "always",
    "no-appendfsync-on-rewrite": "no",
    "min-replicas-to-write": "0",
    "min-replicas-max-lag": "10",
    "maxmemory": "0",
    "maxmemory-policy": "noeviction",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "always"),
        ({"appendfsync": "everysec"}, "everysec"),
        ({"appendfsync": "no"}, "none"),
        ({"appendonly": "no"}, "none"),
        ({"no-appendfsync-on-rewrite": "yes"}, "none"),
        ({"min-replicas-to-write": "1"}, "replicated"),
        ({"min-replicas-to-write": "1", "min-replicas-max-lag": "0"}, "always"),
        ({"min-replicas-to-write": "1", "appendfsync": "everysec"}, "everysec"),
        ({"maxmemory": "64mb", "maxmemory-policy": "allkeys-lru"}, "none"),
        ({"maxmemory": "64mb", "maxmemory-policy": "volatile-ttl"}, "none"),
        ({"maxmemory-policy": "allkeys-lru"}, "always"),  # without a memory limit nothing is evicted
        ({"maxmemory": "64mb"}, "always"),
    ],
)
async def test_what_a_server_keeps_follows_from_its_settings(
    server: RedisServer, open_store: Opener, changed: dict[str, str], expected: Kept
) -> None:
    for name, value in (SAFE | changed).items():
        server.do("CONFIG", "SET", name, value)
    store = await open_store(server.url)
    assert await read(store) == expected


def test_more_than_promised_suffices_and_less_does_not() -> None:
    assert suffices("replicated", "always")
    assert suffices("always", "everysec")
    for less in ("none", "unknown", "everysec", "always"):
        assert not suffices(less, "replicated")
    assert kept(SAFE) == "always"
    assert SAFE.keys() == set(SETTINGS)


async def test_a_server_that_does_not_tell_is_unknown(tmp_path: Path, open_store: Opener) -> None:
    with RedisServer(tmp_path, "--rename-command", "CONFIG", "") as server:
        assert await read(await open_store(server.url)) == "unknown"


@pytest.mark.parametrize("untold", SETTINGS)
async def test_a_server_that_tells_only_some_of_its_settings_is_unknown(
    server: RedisServer, open_store: Opener, monkeypatch: pytest.MonkeyPatch, untold: str
) -> None:
    """Some hosted servers do so."""
    store = await open_store(server.url)
    everywhere = store.everywhere

    async def told(*command: Arg) -> list[RedisReply]:
        return await everywhere(*(word for word in command if word != untold))

    monkeypatch.setattr(store, "everywhere", told)
    assert await read(store) == "unknown"


def test_check_names_a_setting_that_a_server_does_not_tell(server: RedisServer) -> None:
    location = locate(server.url)

    def told(*command: str) -> RedisReply:
        words = [word for word in command if word != "appendfsync"]
        return cast("RedisReply", asyncio.run(consult(location.servers[0], location.access, TIMEOUT, *words)))

    *_, last = server_findings(Settings(), "", told)
    assert last == Finding("note", "durability", "unknown, CONFIG GET does not report appendfsync")


async def test_a_cluster_keeps_what_its_weakest_primary_keeps(tmp_path: Path, open_store: Opener) -> None:
    with Cluster(tmp_path, 3, "--appendonly", "yes", "--appendfsync", "always") as cluster:
        store = await open_store(cluster.url, timeout=TIMEOUT)
        assert await read(store) == "always"
        cluster.servers[1].do("CONFIG", "SET", "appendfsync", "everysec")
        assert await read(store) == "everysec"


async def test_health_says_what_is_kept_now_and_not_what_was_promised(server: RedisServer) -> None:
    for name, value in SAFE.items():
        server.do("CONFIG", "SET", name, value)
    async with running(settings_for(server.url, durability="replicated")) as node:

        async def told(kept: str) -> bool:  # an answer is reused for a tenth of a second
            return bool((await node.client.get("/health")).json()["capabilities"]["durability"] == kept)

        await until(lambda: told("always"))
        server.do("CONFIG", "SET", "appendonly", "no")
        await until(lambda: told("none"))
        server.do("CONFIG", "SET", "appendonly", "yes")
        server.do("CONFIG", "SET", "min-replicas-to-write", 1)
        await until(lambda: told("replicated"))
        # The setting takes effect: no replica follows, so nothing is acknowledged.
        refused = await node.client.post("/api/v1/sessions")
        assert (refused.status_code, refused.headers["x-error-code"]) == (503, "store.unavailable")
        server.do("CONFIG", "SET", "min-replicas-to-write", 0)
        assert (await node.client.post("/api/v1/sessions")).status_code == 201
        # The capability index is cached for minutes, so it does not state the durability.
        index = (await node.client.get("/.well-known/agent.json")).json()
        assert "durability" not in index["capabilities"]


async def test_the_log_says_once_what_is_kept_and_again_when_that_changes(
    redis_server: RedisServer, open_store: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.store.durability.READ_SECONDS", 0.01)
    log = structlog.testing.CapturingLogger()
    monkeypatch.setattr("node.store.durability.log", log)
    store = await open_store(redis_server.url)
    stop = asyncio.Event()
    watching = asyncio.create_task(durability.watch(store, "everysec", stop))
    await eventually(lambda: len(log.calls) == 1)
    redis_server.do("CONFIG", "SET", "appendonly", "yes")
    await eventually(lambda: len(log.calls) == 2)
    stop.set()
    await watching
    assert [(call.method_name, call.args[0], call.kwargs["kept"]) for call in log.calls] == [
        ("warning", "durability is less than promised", "none"),
        ("info", "durability", "everysec"),
    ]
