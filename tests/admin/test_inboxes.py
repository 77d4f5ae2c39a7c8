"""`relay-node admin inboxes`, on a real node."""

import pytest

from tests.admin.conftest import Admin
from tests.inbox.calls import UNKNOWN_ADDRESS, opened, path_of, sent
from tests.support.node_under_test import NodeUnderTest, until


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


async def test_a_count_says_which_inboxes_are_not_counted(
    node: NodeUnderTest, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await admin("inboxes", "count")).out == "0 inboxes\n"
    monkeypatch.setenv("RELAY_LIMIT_INBOX", "0")
    _, said = (await admin("inboxes", "count")).out.splitlines()
    assert said == "inboxes opened while RELAY_LIMIT_INBOX is 0 are not counted"


async def test_an_inbox_is_closed_by_the_operator(node: NodeUnderTest, admin: Admin) -> None:
    inbox = await opened(node)
    assert (await admin("inboxes", "close", "--dry-run", inbox["address"])).status == 0
    assert (await node.client.get(path_of(inbox))).status_code == 200
    assert (await admin("inboxes", "close", inbox["address"])).status == 0
    assert (await node.client.get(path_of(inbox))).status_code == 404
    assert (await admin("inboxes", "count", "--json")).data == {"inboxes": 0}


async def test_the_agents_of_inboxes_are_listed_below_what_each_column_is(node: NodeUnderTest, admin: Admin) -> None:
    skill = {"name": "Summarise reports", "description": "Reads a long report and tells what matters."}
    card = {"name": "Report desk", "description": "Summarises reports of up to 40 pages.", "skills": [skill]}
    inbox = await opened(node)
    owner = {"authorization": f"Bearer {inbox['inbox_token']}"}
    listed = (await node.client.post("/api/v1/agents", json={"card": card}, headers=owner)).json()

    async def is_there() -> bool:
        return (await node.client.get("/api/v1/agents")).json()["total"] == 1

    await until(is_there)
    head, row, count = (await admin("agents", "list")).out.splitlines()
    assert head.split() == ["ID", "PROOF", "LIVENESS", "ADDRESS", "NAME"]
    assert row.split()[:2] == [listed["id"], "inbox"]
    assert count == "1 of 1 agents"
    for option, outcome, status in (("--dry-run", "dry run", 200), ("--json", "removed", 404)):
        ran = await admin("agents", "remove", listed["id"], option, "--json")
        assert (ran.status, ran.data[0]["outcome"]) == (0, outcome)
        assert (await node.client.get(f"/api/v1/agents/{listed['id']}")).status_code == status
