"""The directory used by MCP alone (NETWORK 2)."""

from tests.agents.calls import SUMMARISE
from tests.mcp.calls import done, failed
from tests.support.node_under_test import NodeUnderTest, until


async def test_an_agent_lists_itself_and_is_found(node: NodeUnderTest) -> None:
    inbox = await done(node, "open_inbox")
    card = {"name": "Report desk", "description": "Helps with long documents of every kind.", "skills": [SUMMARISE]}
    listed = await done(node, "register_agent", card=card, inbox_token=inbox["inbox_token"])
    assert listed["status"] == "listed"
    async with node.worker():

        async def is_found() -> bool:
            found = await done(node, "find_agent", query="summarise reports", threshold=0.5, live=True)
            return [hit["agent_id"] for hit in found["hits"]] == [listed["id"]]

        await until(is_found)


async def test_a_url_is_checked_and_what_is_neither_is_refused(node: NodeUnderTest) -> None:
    posted = await done(node, "register_agent", url="https://agent.example/")
    assert (posted["status"], posted["expires_at"]) == ("checking", None)
    assert (await done(node, "get_agent", id=posted["id"]))["status"] == "checking"
    assert (await failed(node, "register_agent", url="http://10.0.0.1/"))["code"] == "request.invalid"
    assert "either url or card" in str(await failed(node, "register_agent"))


async def test_a_token_that_is_missing_is_named_as_an_argument_not_as_a_header(node: NodeUnderTest) -> None:
    card = {"name": "Report desk", "description": "Helps with long documents of every kind.", "skills": [SUMMARISE]}
    inbox = await done(node, "open_inbox")
    for refused in (
        await failed(node, "register_agent", card=card),
        await failed(node, "read_events", topic=f"inbox:{inbox['address']}"),
    ):
        assert (refused["status"], refused["code"]) == (401, "inbox.proof")
        assert "inbox_token" in refused["error"]
        assert "Authorization" not in refused["error"]


async def test_an_agent_takes_itself_out_again(node: NodeUnderTest) -> None:
    inbox = await done(node, "open_inbox")
    card = {"name": "Report desk", "description": "Helps with long documents of every kind.", "skills": [SUMMARISE]}
    listed = (await done(node, "register_agent", card=card, inbox_token=inbox["inbox_token"]))["id"]
    entry = await done(node, "get_agent", id=listed, wait=20)
    assert (entry["status"], entry["name"], entry["inbox"]) == ("listed", "Report desk", inbox["address"])
    page = await done(node, "list_agents", limit=5)
    assert [agent["id"] for agent in page["agents"]] == [listed]
    assert (await done(node, "list_agents", liveness="gated"))["total"] == 0
    other = await done(node, "open_inbox")
    assert (await failed(node, "remove_agent", id=listed, inbox_token=other["inbox_token"]))["status"] in {403, 404}
    assert (await done(node, "remove_agent", id=listed, inbox_token=inbox["inbox_token"]))["status"] == "removed"
    assert (await failed(node, "get_agent", id=listed))["code"] == "agent.unknown"
