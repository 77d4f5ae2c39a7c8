"""Operations charged by what they cost: here the search, which costs what it looks at."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from node.config import Limit, Limits
from node.store import connect
from node.store.work import WorkStore
from node.web.work import WorkLimit
from tests.support.node_under_test import NodeUnderTest, running, settings_for, until
from tests.support.servers import RedisServer

SEARCH = "/api/v1/board/search"
QUERY = {"query": "lighthouse", "limit": 1}
THREAD = {
    "title": "Lighthouses of the north",
    "body": "Every lighthouse has a keeper, and each keeper has a log. " * 30,
}
ALLOWED = Limit(1500, 600)  # less than two searches for this thread cost


@pytest_asyncio.fixture
async def node(empty_redis: RedisServer) -> AsyncIterator[NodeUnderTest]:
    async with running(settings_for(empty_redis.url, limits=Limits(search_characters=ALLOWED))) as node:
        assert (await node.client.post("/api/v1/board", json=THREAD)).status_code == 201
        yield node


async def search(node: NodeUnderTest, client: httpx2.AsyncClient | None = None) -> httpx2.Response:
    return await (client or node.client).post(SEARCH, json=QUERY)


async def spend(node: NodeUnderTest) -> None:
    """Search until the client has been charged for more than it may use."""

    async def refused() -> bool:
        return (await search(node)).status_code == 429

    await until(refused)


async def test_a_search_is_answered_before_it_is_charged(node: NodeUnderTest) -> None:
    first = await search(node)
    assert (first.status_code, len(first.json()["hits"])) == (200, 1)
    assert first.headers["ratelimit-policy"] == '"search";q=60;w=60', "of an allowance that is left nothing is said"
    await until(lambda: node.names("work:*"))


async def test_who_has_used_up_the_allowance_is_told_how_long_to_wait(node: NodeUnderTest) -> None:
    await spend(node)
    refused = await search(node)
    assert (refused.status_code, refused.headers["x-error-code"]) == (429, "limit.work")
    assert refused.json()["error"].startswith("This address is over its limit of 1500 characters searched in 600 s")
    assert refused.headers["ratelimit-policy"] == '"search_characters";q=1500;w=600'
    wait = int(refused.headers["retry-after"])
    assert 1 <= wait <= 600
    assert refused.headers["ratelimit"] == f'"search_characters";r=0;t={wait}'


async def test_the_page_and_the_tool_search_from_the_same_allowance(node: NodeUnderTest) -> None:
    await spend(node)
    assert (await node.client.get("/board?q=lighthouse")).status_code == 429
    assert (await node.client.get("/board")).status_code == 200
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search_board", "arguments": QUERY}}
    headers = {"accept": "application/json, text/event-stream"}
    answer = await node.client.post("/api/v1/mcp", json=call, headers=headers)
    assert "characters searched" in answer.text


async def test_another_process_knows_and_other_clients_do_not_suffer(node: NodeUnderTest) -> None:
    await spend(node)
    async with running(node.settings) as other:
        assert (await search(other)).status_code == 429
        assert (await search(other, other.client_at("203.0.113.8"))).status_code == 200


async def test_a_search_that_is_refused_does_not_count(node: NodeUnderTest) -> None:
    await spend(node)
    (name,) = await node.names("rate:*:search:*")
    counted = await node.store.command("LLEN", name)
    for _ in range(3):
        assert (await search(node)).status_code == 429
    assert await node.store.command("LLEN", name) == counted


@pytest.mark.parametrize("limit", [Limits().search_characters, Limit(0, 1)], ids=["by default", "without"])
async def test_sixty_searches_never_use_it_up(empty_redis: RedisServer, limit: Limit) -> None:
    async with running(settings_for(empty_redis.url, limits=Limits(search_characters=limit))) as node:
        await node.client.post("/api/v1/board", json=THREAD)
        assert {(await search(node)).status_code for _ in range(60)} == {200}


async def test_work_that_was_done_while_redis_is_away_is_let_go(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as server:
        async with await connect(server.url, timeout=5, max_in_flight=64, required=True) as store:
            server.kill()
            work = WorkLimit("search_characters", ALLOWED, "characters", WorkStore(store))
            with capture_logs() as logs:
                work.charge("203.0.113.7", 100)
                await work.settled()
    (line,) = (line for line in logs if line["log_level"] == "warning" and "amount" in line)
    assert (line["event"], line["kind"], line["amount"]) == ("work not charged", "search_characters", 100)
