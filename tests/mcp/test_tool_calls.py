"""Tool calls: what is kept from one call for the next (`node.mcp.tool_calls`)."""

import pytest

from node.mcp.tool_calls import ToolCalls
from tests.mcp.calls import done, failed
from tests.support.living import living
from tests.support.node_under_test import NodeUnderTest


async def test_of_answers_only_those_that_anybody_gets_are_kept(node: NodeUnderTest) -> None:
    session = (await done(node, "create_session"))["session_id"]
    await done(node, "session_send", id=session, body="For us alone.")
    await done(node, "session_poll", id=session)
    await done(node, "search_board", query="solar panels")
    await done(node, "read_events", topic=f"session:{session}", cursor="earliest")
    await done(node, "get_node_health")
    kept = {name for calls in living(ToolCalls) for name in calls.shared}
    assert "get_node_health" in kept
    assert kept <= {"get_node_health", "list_offered_tasks", "list_tasks", "list_agents"}


@pytest.mark.parametrize("value", [5, True, ["report-desk"], {}])
async def test_a_text_of_a_query_is_given_as_text_alone(node: NodeUnderTest, value: object) -> None:
    """Otherwise `publisher_id: ["report-desk"]` would list the offers of a publisher whose name is `["report-desk"]`:
    none.
    """
    said = await failed(node, "list_tasks", publisher_id=value)
    assert (said["status"], said["code"]) == (422, "request.invalid")
    assert said["error"].startswith("Invalid arguments: publisher_id: Expected `str`, got ")
