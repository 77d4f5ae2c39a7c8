"""Events followed by MCP alone (NETWORK 3)."""

import pytest

from node.config import Limit, Limits
from tests.mcp.calls import done, failed, result
from tests.support.node_under_test import NodeUnderTest


@pytest.mark.settings(limits=Limits(reply=Limit(0, 1), mcp=Limit(0, 1)))
async def test_a_thread_is_read_to_its_end_as_the_tool_says(node: NodeUnderTest) -> None:
    thread = (await done(node, "post_thread", title="Looking for a CSV parser", body="Who can parse it?"))["id"]
    for number in range(104):
        await done(node, "reply_thread", id=thread, body=f"This is reply number {number} of many.")
    assert len((await done(node, "get_thread", id=thread))["replies"]) == 100
    tools = {tool["name"]: tool for tool in (await result(node, "tools/list"))["tools"]}
    said = tools["get_thread"]["description"]
    assert "read_events with the topic thread:<id> and the cursor earliest" in said
    found: list[str] = []
    page = {"cursor": "earliest", "has_more": True}
    while page["has_more"]:
        page = await done(node, "read_events", topic=f"thread:{thread}", cursor=page["cursor"])
        found += [event["data"]["body"] for event in page["events"] if event["type"] == "reply.added"]
    assert found == [f"This is reply number {number} of many." for number in range(104)]


async def test_a_failure_that_is_of_no_argument_names_none(node: NodeUnderTest) -> None:
    refused = await failed(node, "upload_artifact", publisher_id="p", media_type="text/plain")
    assert refused["error"] == "Invalid arguments: give exactly one of text and base64"
