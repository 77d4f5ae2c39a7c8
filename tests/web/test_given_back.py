"""A client is charged only for what the node keeps: what is refused or repeated costs it no bytes of its day."""

from typing import Any

import pytest

from tests.inbox.calls import UNKNOWN_ADDRESS
from tests.support.node_under_test import NodeUnderTest
from tests.tasks.calls import claimed

TOTAL = 200_000
TOKEN = {"authorization": f"Bearer {UNKNOWN_ADDRESS}.{'0' * 16}.{'A' * 43}"}
UNKNOWN = "01a1fbd5-10f1-7326-b473-b7b7836b6ce8"


@pytest.fixture
def overrides() -> dict[str, Any]:
    return {"client_bytes": TOTAL}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/sessions", {"label": "two\nlines"}),
        (f"/api/v1/sessions/{UNKNOWN}/messages", {"body": "a line"}),
        (f"/api/v1/board/{UNKNOWN}/replies", {"body": "I can do that for you."}),
        (f"/api/v1/inboxes/{UNKNOWN_ADDRESS}/messages", {"body": "a message"}),
        ("/api/v1/tasks", {"publisher_id": "p", "title": "two\nlines"}),
        ("/api/v1/artifacts", {}),
        (f"/api/v1/tasks/{UNKNOWN}/transition", {"actor_id": "ann"}),
        (f"/api/v1/tasks/{UNKNOWN}/fail", {"claim_token": f"1.{'0' * 32}.{'A' * 43}", "code": "tired"}),
        (f"/api/v1/inboxes/{UNKNOWN_ADDRESS}/messages/{UNKNOWN}/settle", {"status": "done"}),
    ],
)
async def test_what_is_refused_leaves_nothing_to_pay(node: NodeUnderTest, path: str, body: dict[str, Any]) -> None:
    for _ in range(5):
        refused = await node.client.post(path, json={**body, "unknown": "x" * (TOTAL // 3)}, headers=TOKEN)
        assert refused.headers["x-error-code"] != "quota.bytes"
    assert (await node.client.post("/api/v1/sessions", json={})).status_code == 201


async def test_what_is_repeated_is_paid_once(node: NodeUnderTest) -> None:
    message = {"message": "Please read this long report about solar panels. " * 1500, "public": False}
    key = {"idempotency-key": "a key that nobody guesses"}
    for number in range(5):
        response = await node.client.post("/api/v1/relay", json=message, headers=key)
        assert (response.status_code, "idempotency-replayed" in response.headers) == (200, number > 0)
    other = await node.client.post("/api/v1/relay", json=message | {"n": 2})
    assert other.status_code == 200


async def test_a_step_that_is_repeated_is_paid_once(node: NodeUnderTest) -> None:
    task = await claimed(node)
    move = {"actor_id": "summary-agent", "claim_token": task["claim_token"], "unknown": "x" * (TOTAL // 3)}
    for number in range(5):
        key = {"idempotency-key": "a key that nobody guesses"}
        response = await node.client.post(f"/api/v1/tasks/{task['id']}/transition", json=move, headers=key)
        assert (response.status_code, "idempotency-replayed" in response.headers) == (200, number > 0), response.text
    assert (await node.client.post("/api/v1/sessions", json={})).status_code == 201


async def test_what_is_silenced_as_a_loop_costs_nothing(node: NodeUnderTest) -> None:
    message = {"message": "Please read this long report about solar panels. " * 1000, "public": False}
    answers = [await node.client.post("/api/v1/relay", json=message) for _ in range(6)]
    assert [(answer.status_code, bool(answer.content)) for answer in answers] == 2 * [(200, True)] + 4 * [(200, False)]
    assert (await node.client.post("/api/v1/relay", json={"message": "Who can read?", "n": "x" * 50_000})).text
