"""POST /api/v1/board/search over HTTP (SPEC 4.4)."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from node.config import Limit, Limits
from node.embedding.model import Model
from tests.board.calls import BOARD, QUESTION
from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest, running, settings_for, until
from tests.support.servers import RedisServer

SEARCH = f"{BOARD}/search"


@pytest_asyncio.fixture
async def searched(search_redis: RedisServer, patience: None) -> AsyncIterator[NodeUnderTest]:
    """A node on a Redis with or without the query engine."""
    async with running(settings_for(search_redis.url, limits=Limits(search=Limit(0, 1)))) as node:
        yield node


async def search(node: NodeUnderTest, query: str, **options: Any) -> dict[str, Any]:
    return json_of(await node.client.post(SEARCH, json={"query": query, **options}))


async def test_a_thread_is_found_by_text_as_soon_as_it_is_posted(searched: NodeUnderTest) -> None:
    thread = (await searched.client.post(BOARD, json=QUESTION)).json()
    assert await search(searched, "csv parser") == {
        "hits": [
            {
                "thread_id": thread["id"],
                "title": QUESTION["title"],
                "snippet": QUESTION["body"],
                "score": 1.0,
                "url": thread["url"],
                "mode": "text",
            }
        ],
        "mode": "text",
    }


async def test_threads_and_public_messages_are_found_by_meaning_and_others_never(
    searched: NodeUnderTest, loaded_model: Model
) -> None:
    thread = (await searched.client.post(BOARD, json=QUESTION)).json()
    relayed = await searched.client.post("/api/v1/relay", json={"message": "Can anybody read a spreadsheet for me?"})
    await searched.client.post("/api/v1/relay", json={"message": "A private table of numbers", "public": False})
    async with searched.worker():

        async def both() -> bool:
            found = await search(searched, "open a table of comma separated values", threshold=0.5)
            return {hit["thread_id"] for hit in found["hits"]} == {thread["id"], relayed.json()["reference_id"]}

        await until(both)
        assert (await search(searched, "private table of numbers", threshold=1))["hits"] == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"query": ""},
        {"query": "  \n\t\u2003"},
        {"query": "\0\u200b"},
        {"query": "x" * 10_001},
        {"query": 5},
        {"query": "x", "limit": 0},
        {"query": "x", "limit": 51},
        {"query": "x", "limit": 1.5},
        {"query": "x", "threshold": -0.1},
        {"query": "x", "threshold": 1.1},
        {"query": "x", "threshold": "high"},
    ],
)
async def test_what_is_out_of_range_is_refused(node: NodeUnderTest, body: dict[str, Any]) -> None:
    response = await node.client.post(SEARCH, json=body)
    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"][0] == "body"


async def test_bounds_are_in_range_and_other_fields_are_ignored(node: NodeUnderTest) -> None:
    for body in ({"limit": 1, "threshold": 0}, {"limit": 50, "threshold": 1}, {"else": True}):
        assert (await node.client.post(SEARCH, json={"query": "x" * 10_000, **body})).status_code == 200


async def test_a_query_in_any_language_is_searched_for(node: NodeUnderTest) -> None:
    assert (await search(node, "¿Dónde está la biblioteca?"))["hits"] == []


async def test_searches_are_limited(node: NodeUnderTest) -> None:
    responses = [await node.client.post(SEARCH, json={"query": "anything"}) for _ in range(61)]
    assert [response.status_code for response in responses] == [200] * 60 + [429]
    assert responses[-1].headers["x-error-code"] == "limit.exceeded"
    assert responses[0].headers["ratelimit-policy"] == '"search";q=60;w=60'


async def test_malformed_searches_count_too(node: NodeUnderTest) -> None:
    """Otherwise a client could probe the parser without limit."""
    statuses = [(await node.client.post(SEARCH, json={"query": 5})).status_code for _ in range(61)]
    assert statuses == [422] * 60 + [429]
