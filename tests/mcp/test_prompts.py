"""The prompts (SPEC 4.9)."""

import re

import pytest

from node.mcp.prompts import ARGUMENTS
from node.mcp.tools import TOOLS
from node.tasks.model import OVER
from tests.mcp.calls import error, result
from tests.support.node_under_test import NodeUnderTest

ARGUMENT = {
    "swarm_scratchpad": "goal",
    "task_delegation": "title",
    "find_a_peer": "query",
    "byte_offload": "media_type",
    "echo_benchmark": None,
}
TOOL_NAMES = {tool.name for tool in TOOLS}


async def prompt(node: NodeUnderTest, name: str, **arguments: str) -> str:
    """Return the text of a prompt."""
    got = await result(node, "prompts/get", {"name": name, "arguments": arguments})
    (message,) = got["messages"]
    assert (message["role"], message["content"]["type"]) == ("user", "text")
    return message["content"]["text"]


async def test_the_five_prompts_have_their_one_argument(node: NodeUnderTest) -> None:
    listed = {each["name"]: each for each in (await result(node, "prompts/list"))["prompts"]}
    assert set(listed) == set(ARGUMENT) == set(ARGUMENTS)
    for name, argument in ARGUMENT.items():
        shown = [(each["name"], each["required"]) for each in listed[name]["arguments"]]
        assert shown == ([(argument, True)] if argument else [])
        assert listed[name]["title"]
        assert listed[name]["description"]


@pytest.mark.parametrize(("name", "argument"), ARGUMENT.items())
async def test_a_prompt_holds_its_argument_and_no_gaps(node: NodeUnderTest, name: str, argument: str | None) -> None:
    given = {argument: "a {{base_url}} of $1 \\1"} if argument else {}
    text = await prompt(node, name, **given)
    assert all(value in text for value in given.values()), "an argument is text, whatever it holds"
    assert "{{" not in text.replace("a {{base_url}} of", "")
    assert "http://node.example" in text


@pytest.mark.parametrize(("name", "argument"), ARGUMENT.items())
async def test_a_prompt_speaks_of_tools_and_arguments_that_exist(
    node: NodeUnderTest, name: str, argument: str | None
) -> None:
    text = await prompt(node, name, **({argument: "text/csv"} if argument else {}))
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", text))
    inputs = {field for tool in TOOLS for field in tool.inputs}
    shown = {"session_id", "destroy_token", "publisher_token", "upload_url", "upload_headers", "expires_at"}
    shown |= {
        "thread_id",
        "is_signed",
        "next_since_seq",
        "elapsed_ms",
        "retry_after",
        "lease_expires_at",
        "in_progress",
    }
    assert named <= TOOL_NAMES | inputs | shown | set(ARGUMENT)
    assert named & TOOL_NAMES


@pytest.mark.parametrize(("name", "argument"), ARGUMENT.items())
async def test_a_prompt_needs_http_for_large_bytes_only(node: NodeUnderTest, name: str, argument: str | None) -> None:
    text = await prompt(node, name, **({argument: "text/csv"} if argument else {}))
    assert ("/api/v1/" in text) is (name == "byte_offload")


async def test_who_waits_for_a_result_is_told_how_else_a_contract_ends(node: NodeUnderTest) -> None:
    """A prompt that only said to wait for completion would make a model wait for ever for a failed contract."""
    text = await prompt(node, "task_delegation", title="Summarise a report")
    assert {"failed", *OVER} <= set(re.findall(r"`(\w+)`", text))


async def test_who_delegates_and_who_works_are_told_of_reviews_and_of_the_next_task_that_fits(
    node: NodeUnderTest,
) -> None:
    text = await prompt(node, "task_delegation", title="Summarise a report")
    publisher, worker = text.split("**As a worker**")
    assert {"submitted", "accept_result", "reject_result"} <= set(re.findall(r"`(\w+)`", publisher))
    assert {"claim_next_task", "submitted", "rejection"} <= set(re.findall(r"`(\w+)`", worker))


async def test_a_missing_argument_is_named(node: NodeUnderTest) -> None:
    assert (await error(node, "prompts/get", {"name": "byte_offload"}))["message"] == "Missing argument: media_type"
