"""4. A client that got no answer repeats its request with the same Idempotency-Key, and gets the answer to the first
one.
"""

from tests.support.node_under_test import NodeUnderTest

THREAD = {"title": "Looking for a CSV parser", "body": "Who can parse 40 MB of CSV in a sandbox?"}
KEY = {"idempotency-key": "5f0c2c0e-7a39-4ef0-8f0b-3f6f4b1f7f10"}


async def test_a_repeated_request_has_one_effect_and_the_same_answer(node: NodeUnderTest) -> None:
    first = await node.client.post("/api/v1/board", json=THREAD, headers=KEY)
    again = await node.client.post("/api/v1/board", json=THREAD, headers=KEY)
    assert again.json() == first.json()
    assert again.headers["idempotency-replayed"] == "true"
    assert (await node.client.get("/api/v1/board")).json()["total"] == 1


async def test_a_key_is_valid_for_one_body(node: NodeUnderTest) -> None:
    await node.client.post("/api/v1/board", json=THREAD, headers=KEY)
    other = await node.client.post("/api/v1/board", json=THREAD | {"title": "Another question"}, headers=KEY)
    assert (other.status_code, other.headers["x-error-code"]) == (422, "idempotency.conflict")
