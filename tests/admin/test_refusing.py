"""`admin status` and the operator's first page say when the node refuses requests, whether because of Redis or by
itself.
"""

import html
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from node.admin.port import LazyPages
from node.observe.metrics.server import AdminRequest, InstanceState
from tests.admin.conftest import Admin
from tests.support.node_under_test import NodeUnderTest, running, settings_for
from tests.support.servers import RedisServer, free_port

NO_REPLICAS = "Redis has fewer replicas than it needs to accept writes"
READY = InstanceState(ok=True)
NO_WEB = InstanceState(ok=False, reason="no web process has been heard of lately")


@pytest_asyncio.fixture
async def node(own_redis: RedisServer) -> AsyncIterator[NodeUnderTest]:
    async with running(settings_for(own_redis.url)) as node:
        yield node


async def overview(node: NodeUnderTest, state: InstanceState = READY, **settings: int | str) -> str:
    """Return the first page for an instance in this state."""

    async def ready() -> InstanceState:
        return state

    pages = LazyPages(msgspec.structs.replace(node.settings, **settings))
    try:
        answer = await pages.answer(AdminRequest("GET", "/admin", "127.0.0.1", {}, b"", ready))
    finally:
        await pages.close()
    assert answer.status == 200, answer.body
    return html.unescape(answer.body.decode())


async def test_nothing_is_said_while_nothing_is_refused(node: NodeUnderTest, admin: Admin) -> None:
    status = (await admin("status", "--json")).data
    assert (status["no_writes"], status["refused"]) == ("", {})
    assert 'class="notice"' not in await overview(node)


async def test_redis_takes_no_writes(node: NodeUnderTest, own_redis: RedisServer, admin: Admin) -> None:
    own_redis.do("CONFIG", "SET", "min-replicas-to-write", "1")
    assert (await admin("status", "--json")).data["no_writes"] == NO_REPLICAS
    assert f"refused: {NO_REPLICAS}" in (await admin("status")).out
    assert f"Redis refuses writes: {NO_REPLICAS}." in await overview(node)


async def test_the_redis_to_search_in_does_not_answer(
    node: NodeUnderTest, admin: Admin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Then searches must not be reported as answered by meaning and text."""
    with RedisServer(tmp_path / "search", port=free_port()) as searched:
        monkeypatch.setenv("RELAY_SEARCH_URL", searched.url)
        assert (await admin("status", "--json")).data["no_searches"] == ""
    # The rest of the text comes from the event loop.
    why = f"Redis at 127.0.0.1:{searched.port} is out of reach: [Errno 111] Connect"
    assert (await admin("status", "--json")).data["no_searches"].startswith(why)
    assert f"searches   refused: {why}" in (await admin("status")).out
    assert f"Searches are refused: {why}" in await overview(node, search_url=searched.url)


async def test_memory_is_full(node: NodeUnderTest, own_redis: RedisServer, admin: Admin) -> None:
    own_redis.do("CONFIG", "SET", "maxmemory", "1")
    status = (await admin("status", "--json")).data
    assert status["no_writes"] == "Redis is out of memory"
    assert {"thread", "task", "reply"} <= set(status["refused"]["memory.low"])
    page = await overview(node)
    assert "Redis refuses writes: Redis is out of memory." in page
    assert "memory.low" in page


async def test_the_node_is_full(node: NodeUnderTest) -> None:
    post = {"title": "Looking for a CSV parser", "body": "Who can parse a table?"}
    assert (await node.client.post("/api/v1/board", json=post)).status_code == 201
    assert "Refused at present, with the code node.full: thread." in await overview(node, max_threads=1)


async def test_the_instance_is_not_ready(node: NodeUnderTest) -> None:
    assert f"This instance is not ready: {NO_WEB.reason}." in await overview(node, NO_WEB)


async def test_asking_leaves_nothing_behind(node: NodeUnderTest, own_redis: RedisServer, admin: Admin) -> None:
    await admin("status")
    before = own_redis.do("DBSIZE"), own_redis.info("persistence")["rdb_changes_since_last_save"]
    await admin("status")
    assert (own_redis.do("DBSIZE"), own_redis.info("persistence")["rdb_changes_since_last_save"]) == before
