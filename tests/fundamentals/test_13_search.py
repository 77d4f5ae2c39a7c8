"""13. The board is searched by meaning: a worker embeds posts and queries."""

from typing import Any

import pytest

from node.config import Limit, Limits
from tests.support.node_under_test import NodeUnderTest, until

THREAD = {"title": "Looking for a CSV parser", "body": "Who can parse 40 MB of CSV in a sandbox?"}
PARAPHRASE = "somebody to read a large table of comma-separated values"


# the test searches until the worker is ready
pytestmark = pytest.mark.settings(limits=Limits(search=Limit(100_000, 1)))


async def test_a_thread_is_found_by_its_meaning_though_the_words_differ(node: NodeUnderTest) -> None:
    thread = (await node.client.post("/api/v1/board", json=THREAD)).json()
    hits: list[dict[str, Any]] = []

    async def is_found() -> bool:
        query = {"query": PARAPHRASE, "threshold": 0.6}
        hits[:] = (await node.client.post("/api/v1/board/search", json=query)).json()["hits"]
        return any(hit["mode"] != "text" for hit in hits)

    async with node.worker():
        await until(is_found)  # the worker loads the model first
    assert [(hit["thread_id"], hit["title"]) for hit in hits] == [(thread["id"], THREAD["title"])]
    assert 0.6 <= hits[0]["score"] <= 1
