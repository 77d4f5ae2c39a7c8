"""What the answers of limited operations say about the limit, whatever becomes of the request."""

from typing import Any

import pytest

from tests.support.node_under_test import NodeUnderTest

UNKNOWN = "01a1fbd5-10f1-7326-b473-b7b7836b6ce8"
THREAD = {"title": "Looking for a parser", "body": "Who can parse a large table in a sandbox?"}
SPANISH = "¿Quién puede ayudarme con esta tabla?"
MESSAGE = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello there"}]}}
REQUESTS: list[tuple[str, Any]] = [
    ("/api/v1/relay", {"message": "Hello, is anybody there?"}),
    ("/api/v1/relay", {"message": SPANISH}),
    ("/api/v1/relay", "no object"),
    ("/api/v1/board", THREAD),
    ("/api/v1/board", THREAD | {"body": SPANISH}),
    ("/api/v1/board", {"title": "No body"}),
    ("/api/v1/board/<thread>/replies", {"body": "I can help"}),
    ("/api/v1/board/<thread>/replies", {"body": SPANISH}),
    (f"/api/v1/board/{UNKNOWN}/replies", {"body": "I can help"}),
    ("/api/v1/board/search", {"query": "parsers"}),
    ("/api/v1/board/search", {}),
    ("/api/v1/sessions", {}),
    ("/api/v1/sessions", {"ttl_seconds": 1}),
    (f"/api/v1/sessions/{UNKNOWN}/messages", {"body": "a line"}),
    ("/api/v1/artifacts", {}),
    ("/api/v1/message:send", MESSAGE),
    ("/api/v1/message:send", {}),
    ("/api/v1/feedback", {"feedback_text": "The search finds my threads quickly."}),
    ("/api/v1/feedback", {"feedback_text": SPANISH}),
    ("/api/v1/feedback", {"feedback_text": "short"}),
]


async def counted(node: NodeUnderTest) -> int:
    """Places taken in all limits."""
    return sum([int(await node.store.command("LLEN", name)) for name in await node.names("rate:*")])  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["", "key-1"], ids=["once", "again with a key"])
@pytest.mark.parametrize(("path", "body"), REQUESTS)
async def test_an_answer_says_where_the_client_stands_if_the_request_was_counted(
    node: NodeUnderTest, path: str, body: Any, key: str
) -> None:
    thread = (await node.client_at("203.0.113.8").post("/api/v1/board", json=THREAD)).json()
    path = path.replace("<thread>", thread["id"])
    headers = {"idempotency-key": key} if key else {}
    for _ in range(2 if key else 1):
        before = await counted(node)
        response = await node.client.post(path, json=body, headers=headers)
        told = {"ratelimit", "ratelimit-policy"} & response.headers.keys()
        assert len(told) == 2 * (await counted(node) - before), response.text
