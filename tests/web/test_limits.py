"""What the answers of limited operations say about the limit, whatever happens to the request, and what the request
leaves.
"""

from hashlib import sha256
from typing import Any, cast

import msgspec
import pytest
from httpx2 import Response

from node.config import Limit
from node.store import ids, keys
from tests.agents.calls import AGENTS, card_of
from tests.artifacts.calls import content_digest
from tests.inbox.calls import bearer
from tests.support.limits import every_limit
from tests.support.node_under_test import NodeUnderTest
from tests.web.paths import THREAD, begun

UNKNOWN = "01a1fbd5-10f1-7326-b473-b7b7836b6ce8"
SPANISH = "¿Quién puede ayudarme con esta tabla?"
MESSAGE = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello there"}]}}
TASK = {"publisher_id": "desk", "title": "Count the panels"}
TOTAL = 20_000
"""A client's bytes of the day: so few that Redis is asked before each request is carried out (`node.web.usage`)."""
BYTES = b"name,size"
ARTIFACT = {
    "publisher_id": "csv-agent",
    "media_type": "text/csv",
    "byte_size": len(BYTES),
    "digest_sha256": sha256(BYTES).hexdigest(),
}
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
    """Return the number of places taken in all limits."""
    return sum([int(await node.store.command("LLEN", name)) for name in await node.names("rate:*")])  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["", "key-1"], ids=["once", "again with a key"])
@pytest.mark.parametrize(("path", "body"), REQUESTS)
async def test_an_answer_says_where_the_client_stands_if_the_request_was_counted(
    node: NodeUnderTest, path: str, body: Any, key: str
) -> None:
    path = await begun(node, path)
    headers = {"idempotency-key": key} if key else {}
    for _ in range(2 if key else 1):
        before = await counted(node)
        response = await node.client.post(path, json=body, headers=headers)
        told = {"ratelimit", "ratelimit-policy"} & response.headers.keys()
        assert len(told) == 2 * (await counted(node) - before), response.text


@pytest.mark.settings(limits=every_limit(1, 60))
class TestBeyondTheLimit:
    """Nothing of a refused request is kept."""

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("/api/v1/relay", {"message": "Hello, is anybody there?"}),
            ("/api/v1/relay", {"message": "Hello, is anybody there?", "public": False}),
            ("/api/v1/board", THREAD),
            ("/api/v1/board/<thread>/replies", {"body": "I can help"}),
            ("/api/v1/board/<thread>/report", {"reason": "It is spam."}),
            ("/api/v1/tasks", TASK),
            ("/api/v1/sessions", {}),
            ("/api/v1/sessions/<session>/messages", {"body": "a line"}),
            ("/api/v1/artifacts", ARTIFACT),
            ("/api/v1/inboxes", {}),
            ("/api/v1/inboxes/<inbox>/messages", {"body": "Hello"}),
            pytest.param(
                "/api/v1/inboxes/<inbox>/messages",
                {"body": "Hello"},
                marks=pytest.mark.settings(limits=msgspec.structs.replace(every_limit(1, 60), inbox_send=Limit(0, 60))),
            ),  # the limit of this inbox, not that of all together
            ("/api/v1/message:send", MESSAGE),
            ("/api/v1/feedback", {"feedback_text": "The search finds my threads quickly."}),
            ("/api/v1/agents", {"url": "https://agents.example/card.json"}),
            ("/api/v1/tasks/claim-next", {"assignee_id": "ann"}),
            ("/api/v1/board/search", {"query": "parsers"}),
            ("/api/v1/tasks/search", {"query": "parsers"}),
            ("/api/v1/agents/search", {"query": "parsers"}),
        ],
    )
    async def test_a_request_leaves_nothing(self, node: NodeUnderTest, path: str, body: Any) -> None:
        path = await begun(node, path)
        headers = {"content-digest": content_digest(BYTES)}
        first = await node.client.post(path, json=body, headers=headers)
        assert first.status_code < 300, first.text
        before = await kept(node)
        refused = await node.client.post(path, json=body, headers=headers)
        assert (refused.status_code, refused.headers["x-error-code"]) == (429, "limit.exceeded")
        assert await kept(node) == before


@pytest.mark.settings(client_sessions=1, client_threads=1, client_tasks=1, client_inboxes=1)
class TestLastPlace:
    """A client that has taken the last place, but got no answer, repeats the request with its Idempotency-Key."""

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("/api/v1/board", THREAD),
            ("/api/v1/tasks", TASK),
            ("/api/v1/a2a/tasks", MESSAGE),
            ("/api/v1/sessions", {}),
            ("/api/v1/inboxes", {}),
        ],
    )
    async def test_the_answer_is_given_again_and_counts_as_any_other(
        self, node: NodeUnderTest, path: str, body: Any
    ) -> None:
        first, again, other = [
            await node.client.post(path, json=body, headers={"idempotency-key": f"a key that nobody guesses, {which}"})
            for which in ("mine", "mine", "another")
        ]
        assert first.status_code in (200, 201)
        assert (again.status_code, again.json()) == (first.status_code, first.json())
        assert again.headers["idempotency-replayed"] == "true"
        assert _left(again) == _left(first) - 1
        assert (other.status_code, other.headers["x-error-code"][:6]) == (429, "quota.")


@pytest.mark.settings(client_bytes=TOTAL, limits=every_limit(1000, 60))
class TestLastBytes:
    """A client that has used up its bytes can still repeat a request with its Idempotency-Key."""

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("/api/v1/relay", {"message": "Hello, is anybody there?"}),
            ("/api/v1/relay", {"message": "Hello, is anybody there?", "public": False}),
            ("/api/v1/wire/stream", {"message": "Hello, is anybody there?"}),
            ("/api/v1/board", THREAD),
            ("/api/v1/board/<thread>/replies", {"body": "I can help"}),
            ("/api/v1/tasks", TASK),
            ("/api/v1/a2a/tasks", MESSAGE),
            ("/api/v1/message:send", MESSAGE),
            ("/api/v1/sessions", {}),
            ("/api/v1/sessions/<session>/messages", {"body": "a line " * 60}),
            ("/api/v1/artifacts", ARTIFACT),
            ("/api/v1/artifacts/inline", {"publisher_id": "csv-agent", "media_type": "text/csv", "text": "name,size"}),
            ("/api/v1/inboxes", {}),
            ("/api/v1/inboxes/<inbox>/messages", {"body": "Hello"}),
            ("/api/v1/inboxes/<inbox>/a2a/message:send", MESSAGE | {"configuration": {"returnImmediately": True}}),
            ("/api/v1/feedback", {"feedback_text": "The search finds my threads quickly."}),
        ],
    )
    async def test_the_answer_is_given_again(self, node: NodeUnderTest, path: str, body: Any) -> None:
        path = await begun(node, path)
        await is_answered_again(node, path, body, {"content-digest": content_digest(BYTES)})


@pytest.mark.settings(client_bytes=25 * TOTAL)
class TestLastBytesOfAgents:
    """As above. An agent is charged for what its card may need in the search."""

    async def test_the_answer_about_a_url_is_given_again(self, node: NodeUnderTest) -> None:
        await is_answered_again(node, AGENTS, {"url": "https://agents.example/card.json"}, {}, 25 * TOTAL)

    async def test_the_answer_about_a_card_is_given_again(self, node: NodeUnderTest) -> None:
        inbox = (await node.client.post("/api/v1/inboxes", json={})).json()
        await is_answered_again(node, AGENTS, {"card": card_of()}, bearer(inbox["inbox_token"]), 25 * TOTAL)


async def is_answered_again(
    node: NodeUnderTest, path: str, body: dict[str, Any], headers: dict[str, str], total: int = TOTAL
) -> None:
    """Check that, once the client has used up its `total`, the request is answered as before and no other
    request is.
    """
    mine, another = (headers | {"idempotency-key": f"a key that nobody guesses, {which}"} for which in "12")
    first = await node.client.post(path, json=body, headers=mine)
    assert first.status_code in (200, 201, 202), first.text
    count = keys.byte_count(ids.home_of("203.0.113.7"), "203.0.113.7")
    await node.store.command("SET", count, total, "PX", 60_000)
    again = await node.client.post(path, json=body, headers=mine)
    assert again.status_code == first.status_code, again.text
    assert again.headers["idempotency-replayed"] == "true"
    conflict = await node.client.post(path, json=body | {"extra": 1}, headers=mine)
    assert conflict.status_code in (400, 422)
    other = await node.client.post(path, json=body, headers=another)
    assert (other.status_code, other.headers["x-error-code"]) == (429, "quota.bytes")


def _left(response: Response) -> int:
    """Return how many further requests an answer says that the client may make."""
    return int(response.headers["ratelimit"].partition(";r=")[2].partition(";")[0])


async def kept(node: NodeUnderTest) -> dict[str, bytes]:
    """Return everything in Redis except the bytes that a process reports to it every second."""
    names = [name for name in await node.names("*") if not name.startswith(("bytes:", "activity:"))]
    return dict(
        zip(names, cast("list[bytes]", await node.store.run_all([("DUMP", name) for name in names])), strict=True)
    )
