"""A token that was rotated gives no access any more, whatever it is used for (NETWORK 1)."""

from typing import Any

from tests.agents.calls import AGENTS, card_of
from tests.inbox.calls import INBOXES, bearer, opened, path_of, read, sent
from tests.support.answers import refused
from tests.support.node_under_test import NodeUnderTest


async def test_a_rotated_token_does_nothing_that_the_one_after_it_does(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    message = await sent(node, inbox)
    listed = await node.client.post(AGENTS, json={"card": card_of()}, headers=bearer(inbox["inbox_token"]))
    rotated = (await node.client.post(INBOXES, json={"rotate": True}, headers=bearer(inbox["inbox_token"]))).json()
    one = path_of(inbox, f"/messages/{message['id']}")
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", INBOXES, {"json": {"label": "Another"}}),
        ("GET", path_of(inbox, "/messages"), {}),
        ("GET", path_of(inbox, "/callbacks"), {}),
        ("GET", one, {}),
        ("POST", f"{one}/settle", {"json": {"status": "done"}}),
        ("POST", path_of(inbox, "/settle"), {"json": {"through_seq": 0}}),
        ("POST", path_of(inbox, "/settle"), {"json": {"through_seq": 1}}),
        ("GET", "/api/v1/events", {"params": {"topic": f"inbox:{inbox['address']}", "cursor": "earliest"}}),
        ("POST", AGENTS, {"json": {"card": card_of()}}),
        ("DELETE", f"{AGENTS}/{listed.json()['id']}", {}),
        ("DELETE", path_of(inbox), {}),
    ]
    for method, path, given in requests:
        response = await node.client.request(method, path, headers=bearer(inbox["inbox_token"]), **given)
        assert refused(response) == (403, "inbox.token"), (method, path)
    assert [each["id"] for each in (await read(node, rotated))["messages"]] == [message["id"]]
    for method, path, given in requests:
        response = await node.client.request(method, path, headers=bearer(rotated["inbox_token"]), **given)
        assert response.status_code in (200, 201, 202), (method, path, response.text)
