"""Inboxes whose policy requires a signature: what A2A clients are told about it, and how a signature is checked."""

import time
from typing import Any

import http_sf
import httpx2
import msgspec
import pytest

from tests.board.signed_posts import OTHER_KEY
from tests.inbox.calls import ADDRESS, INBOXES, Json, bearer, opened, path_of, read, send_signed, signed
from tests.sign.signing import Signed, sign
from tests.support.node_under_test import NodeUnderTest

BODY: Json = {
    "message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "Good morning."}]},
    "configuration": {"returnImmediately": True},
}


async def refused(node: NodeUnderTest, inbox: Json) -> httpx2.Response:
    """Return the answer to an unsigned message, which must be refused."""
    response = await node.client.post(path_of(inbox, "/a2a/message:send"), json=BODY)
    assert (response.status_code, response.json()["error"]["details"][0]["reason"]) == (403, "INBOX_POLICY")
    return response


@pytest.mark.parametrize("policy", ["signed", "contacts"])
async def test_a_policy_is_judged_by_the_key_that_signed_the_request(node: NodeUnderTest, policy: str) -> None:
    inbox = await opened(node, policy=policy, contacts=[ADDRESS])
    await refused(node, inbox)
    request = signed("POST", path_of(inbox, "/a2a/message:send"), BODY)
    assert (await send_signed(node, request)).json()["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert (await send_signed(node, request)).status_code == 409  # each signature is accepted once
    stranger = signed("POST", path_of(inbox, "/a2a/message:send"), BODY, key=OTHER_KEY)
    assert (await send_signed(node, stranger)).status_code == (403 if policy == "contacts" else 200)
    assert (await read(node, inbox))["messages"][0]["signer"] == ADDRESS


async def test_who_is_refused_is_told_what_to_sign(node: NodeUnderTest) -> None:
    """A request that is signed exactly as the refusal says is accepted."""
    inbox = await opened(node, policy="signed")
    members: dict[str, Any] = http_sf.parse(  # pyright: ignore[reportAssignmentType]
        (await refused(node, inbox)).headers["accept-signature"].encode(), tltype="dictionary"
    )
    [(label, (covered, parameters))] = members.items()
    assert parameters.pop("created") is True, "the client is to say when"
    params = f";created={int(time.time())}" + "".join(f';{name}="{value}"' for name, value in parameters.items())
    request = Signed("POST", path_of(inbox, "/a2a/message:send"), body=msgspec.json.encode(BODY))
    request = sign([name for name, _ in covered], params, label=label, request=request)
    assert (await send_signed(node, request)).status_code == 200
    plain = await node.client.post(path_of(inbox, "/messages"), json={"body": "x"})
    assert (plain.status_code, "accept-signature" in plain.headers) == (403, True)


async def test_who_may_not_write_at_all_over_json_rpc_is_told_so_too(node: NodeUnderTest) -> None:
    inbox = await opened(node, policy="contacts", contacts=[ADDRESS])
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": BODY}
    response = await node.client.post(path_of(inbox, "/a2a"), json=call)
    assert (response.status_code, "accept-signature" in response.headers) == (403, True)


async def test_a_card_says_that_messages_are_signed_as_long_as_they_have_to_be(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    path = path_of(inbox, "/a2a/.well-known/agent-card.json")

    async def told(policy: str) -> Any:
        await node.client.post(INBOXES, json={"policy": policy}, headers=bearer(inbox["inbox_token"]))
        return (await node.client.get(path)).json()["capabilities"].get("extensions")

    [extension] = await told("signed")
    assert (extension["description"], extension["required"]) == (
        "Messages to this inbox must be signed (RFC 9421, Ed25519)",
        False,
    )
    recipe = await node.client.get(extension["uri"], headers={"accept": "text/markdown"})
    assert "RFC 9421" in recipe.text
    assert await told("contacts") == [extension]
    assert await told("open") is None
