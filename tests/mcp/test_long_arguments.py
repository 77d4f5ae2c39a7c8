"""Long arguments that do not become part of a request body (MCP)."""

from typing import Any

import pytest

from tests.mcp.calls import failed
from tests.support.node_under_test import NodeUnderTest


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("get_thread", {"id": "😀" * 10_000}),
        ("list_tasks", {"status": "offered", "skill": "😀" * 10_000}),
        ("list_tasks", {"status": "offered", "limit": [1] * 10_000}),
        ("read_inbox", {"address": "a", "inbox_token": "a" * 10_000}),
    ],
)
async def test_what_is_no_part_of_a_body_is_no_longer_than_over_http(
    node: NodeUnderTest, tool: str, arguments: dict[str, Any]
) -> None:
    *_, longest = arguments
    assert (await failed(node, tool, **arguments))["error"] == f"Invalid arguments: {longest}: too long"
