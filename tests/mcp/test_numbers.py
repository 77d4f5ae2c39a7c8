"""Numbers as frameworks send them, and the errors for values that are no numbers."""

import json
from typing import Any

import pytest

from tests.mcp.calls import done, post
from tests.support.node_under_test import NodeUnderTest

NO_NUMBERS = [b"true", b"[1]", b'{"' + b"\xc3\xa9" * 99 + b'":1}']


async def called(node: NodeUnderTest, tool: str, arguments: bytes) -> dict[str, Any]:
    """Return the result of a tool, called with the arguments' JSON in any form."""
    params = b'{"name":"%b","arguments":%b}' % (tool.encode(), arguments)
    return (await post(node, b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}' % params)).json()["result"]


async def refused(node: NodeUnderTest, tool: str, name: str, value: bytes) -> str:
    outcome = await called(node, tool, b'{"%b":%b}' % (name.encode(), value))
    said = json.loads(outcome["content"][0]["text"])
    assert (outcome["isError"], said["status"], said["code"]) == (True, 422, "request.invalid")
    return said["error"]


@pytest.mark.parametrize("limit", [b"5", b"5.0", b"50e-1", b'"5"'])
async def test_a_whole_number_may_come_in_any_form(node: NodeUnderTest, limit: bytes) -> None:
    session = await done(node, "create_session", ttl_seconds=900.0)
    for n in range(6):
        await done(node, "session_send", id=session["session_id"], body=f"Line {n}.")
    polled = await called(node, "session_poll", b'{"id":"%b","limit":%b}' % (session["session_id"].encode(), limit))
    assert len(polled["structuredContent"]["lines"]) == 5


async def test_a_number_that_is_no_integer_is_taken_where_any_number_is(node: NodeUnderTest) -> None:
    for wait in (b"0", b"0.001", b"1e-3"):
        assert "structuredContent" in await called(node, "list_tasks", b'{"wait":%b}' % wait)


@pytest.mark.parametrize("value", [b"1.5", b"-0.5", b"1e400", b"9007199254740993.0", *NO_NUMBERS])
async def test_what_is_no_integer_is_named_as_it_came(node: NodeUnderTest, value: bytes) -> None:
    """For example, `limit: 1.5` must not be answered with "Expected int, got str"."""
    shown = value[:60].decode(errors="ignore")
    said = await refused(node, "list_tasks", "limit", value)
    assert said == f"Invalid arguments: limit: must be an integer, not {shown}"


@pytest.mark.parametrize("value", NO_NUMBERS)
async def test_what_is_no_number_is_named_as_it_came(node: NodeUnderTest, value: bytes) -> None:
    shown = value[:60].decode(errors="ignore")
    assert await refused(node, "list_tasks", "wait", value) == f"Invalid arguments: wait: must be a number, not {shown}"
