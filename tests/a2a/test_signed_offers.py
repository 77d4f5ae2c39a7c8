"""Offers over A2A are signed like any other offer (RFC 9421, DESIGN 8)."""

from typing import Any

from tests.a2a.calls import OFFER
from tests.board.signed_posts import OTHER_KEY, send, signed
from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest

MESSAGE = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "Translate this memo into plain words."}]}
BODY: dict[str, Any] = {"message": MESSAGE}


async def offered(node: NodeUnderTest) -> dict[str, Any]:
    return json_of(await send(node, signed(OFFER, BODY)))["task"]


async def test_a_signed_offer_is_one_of_its_key(node: NodeUnderTest) -> None:
    task = await offered(node)
    assert task["metadata"]["isSigned"] is True
    contract = (await node.client.get(f"/api/v1/tasks/{task['id']}")).json()
    assert contract["is_signed"] is True
    # The signed body is an A2A message, which the record does not show.
    assert "signed_body" not in contract["signature"]


async def test_a_wrong_signature_is_refused_and_named(node: NodeUnderTest) -> None:
    request = signed(OFFER, BODY)
    forged = await node.client.post(OFFER, content=request.body + b" ", headers=request.headers)
    assert (forged.status_code, forged.headers["x-error-code"]) == (400, "signature.invalid")
    assert forged.headers["signature-error"].startswith("error=")
    assert forged.json()["error"]["details"][0]["reason"] == "INVALID_PARAMS"
    assert (await node.client.get("/api/v1/tasks?status=offered")).json()["total"] == 0
    assert (await send(node, request)).status_code == 200
    again = await send(node, request)
    assert (again.status_code, again.headers["signature-error"]) == (409, "error=invalid_signature")


async def test_the_key_of_an_offer_cancels_it(node: NodeUnderTest) -> None:
    path = f"/api/v1/tasks/{(await offered(node))['id']}:cancel"
    stranger = await send(node, signed(path, {}, key=OTHER_KEY))
    assert (stranger.status_code, stranger.json()["error"]["details"][0]["reason"]) == (400, "TASK_NOT_CANCELABLE")
    mine = signed(path, {})
    forged = await node.client.post(path, content=mine.body + b" ", headers=mine.headers)
    assert (forged.status_code, "signature-error" in forged.headers) == (400, True)
    assert (await send(node, mine)).json()["status"]["state"] == "TASK_STATE_CANCELED"
