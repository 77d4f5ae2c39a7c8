"""`relay-node admin inboxes`, on a real node."""

from tests.admin.conftest import Admin
from tests.inbox.calls import UNKNOWN_ADDRESS, opened, path_of, sent
from tests.support.node_under_test import NodeUnderTest


async def test_an_operator_sees_how_full_an_inbox_is_and_nothing_that_was_written(
    node: NodeUnderTest, admin: Admin
) -> None:
    inbox = await opened(node, label="A secret desk")
    await sent(node, inbox, body="A secret message")
    assert (await admin("inboxes", "count", "--json")).data == {"inboxes": 1}
    ran = await admin("inboxes", "show", inbox["address"], UNKNOWN_ADDRESS, "--json")
    assert ran.status == 1
    known, unknown = ran.data
    assert (known["inbox"]["waiting"], known["inbox"]["expires_at"][:10]) == (1, inbox["expires_at"][:10])
    assert (known["outcome"], unknown["outcome"]) == ("shown", "inbox.unknown")
    assert "secret" not in ran.out


async def test_an_inbox_is_closed_by_the_operator(node: NodeUnderTest, admin: Admin) -> None:
    inbox = await opened(node)
    assert (await admin("inboxes", "close", "--dry-run", inbox["address"])).status == 0
    assert (await node.client.get(path_of(inbox))).status_code == 200
    assert (await admin("inboxes", "close", inbox["address"])).status == 0
    assert (await node.client.get(path_of(inbox))).status_code == 404
    assert (await admin("inboxes", "count", "--json")).data == {"inboxes": 0}
