"""Inboxes used by MCP alone (NETWORK 1)."""

import asyncio
from typing import Any, cast

import pytest

from node.store import keys
from tests.agents.calls import SUMMARISE
from tests.inbox.calls import ADDRESS
from tests.mcp.calls import done, failed, result
from tests.support.node_under_test import NodeUnderTest

SECRET_KEY = "an-idempotency-key-of-32-characters"


async def test_a_token_that_an_operation_needs_is_required(node: NodeUnderTest) -> None:
    listed = (await result(node, "tools/list"))["tools"]
    required = {tool["name"]: tool["inputSchema"].get("required", []) for tool in listed}
    assert "inbox_token" in required["read_inbox"]
    assert "receipt_token" in required["message_status"]
    assert "inbox_token" not in required["open_inbox"]


async def test_two_agents_that_have_nothing_but_mcp_write_to_each_other(node: NodeUnderTest) -> None:
    inbox = await done(node, "open_inbox", label="Desk", idempotency_key=SECRET_KEY)
    assert await done(node, "open_inbox", label="Desk", idempotency_key=SECRET_KEY) == inbox
    mine = {"address": inbox["address"], "inbox_token": inbox["inbox_token"]}
    renewed = await done(node, "open_inbox", label="Other", inbox_token=inbox["inbox_token"])
    assert renewed["epoch"] == inbox["epoch"]

    async def owner() -> None:
        page = await done(node, "read_inbox", **mine, wait=20)
        (message,) = page["messages"]
        await done(node, "settle_message", **mine, id=message["id"], status="done", reply=message["body"].upper())

    answering = asyncio.create_task(owner())
    await node.listened_to(keys.inbox(inbox["address"]))
    answer = await done(node, "send_to_inbox", address=inbox["address"], body="hello", wait=20)
    await answering
    assert (answer["status"], answer["reply"]) == ("done", "HELLO")


async def test_a_sender_follows_and_takes_back_its_messages_and_an_owner_closes_by_mcp_alone(
    node: NodeUnderTest,
) -> None:
    inbox = await done(node, "open_inbox", policy="open", contacts=[ADDRESS])
    mine = {"address": inbox["address"], "inbox_token": inbox["inbox_token"]}
    artifacts = ["01980000-0000-7000-8000-000000000000"]
    sent = [await done(node, "send_to_inbox", address=inbox["address"], body="x", artifact_ids=artifacts)] + [
        await done(node, "send_to_inbox", address=inbox["address"], body="x") for _ in range(3)
    ]
    receipts = [{"address": inbox["address"]} | {name: each[name] for name in ("id", "receipt_token")} for each in sent]
    assert (await done(node, "withdraw_message", **receipts[3]))["status"] == "withdrawn"
    page = await done(node, "read_inbox", **mine)
    assert [each["artifact_ids"] for each in page["messages"]] == [artifacts, [], []]
    assert (await done(node, "message_status", **receipts[0], status="queued", wait=20))["status"] == "read"
    await done(node, "settle_message", **mine, id=sent[0]["id"], status="done", artifact_ids=artifacts)
    assert (await done(node, "message_status", **receipts[0]))["artifact_ids"] == artifacts
    assert (await done(node, "settle_through", **mine, through_seq=2))["settled"] == 1
    assert (await done(node, "get_inbox", address=inbox["address"]))["accepting"]
    await done(node, "close_inbox", **mine)
    assert (await done(node, "message_status", **receipts[2]))["status"] == "expired"
    assert (await failed(node, "get_inbox", address=inbox["address"]))["code"] == "inbox.unknown"


async def test_a_tool_says_what_is_wrong_with_a_token(node: NodeUnderTest) -> None:
    inbox = await done(node, "open_inbox")
    refused = await failed(node, "read_inbox", address=inbox["address"], inbox_token="nonsense")
    assert (refused["status"], refused["code"]) == (403, "inbox.token")
    assert "rotated" in refused["error"], "not that one has to be given"
    assert "ASCII" in str(await failed(node, "read_inbox", address=inbox["address"], inbox_token="\u00e4"))
    assert "inbox_token" in str(await failed(node, "open_inbox", inbox_token=7))


@pytest.mark.parametrize(
    ("tool", "first", "other"),
    [
        ("publish_task", {"publisher_id": "p", "title": "Sort a list"}, {"title": "Sort two lists"}),
        ("open_inbox", {"label": "Desk"}, {"label": "Window"}),
    ],
)
async def test_a_key_that_was_used_is_named_as_the_argument_that_it_is(
    node: NodeUnderTest, tool: str, first: dict[str, Any], other: dict[str, Any]
) -> None:
    await done(node, tool, **first, idempotency_key=SECRET_KEY)
    refused = await failed(node, tool, **first | other, idempotency_key=SECRET_KEY)
    said = "Invalid arguments: idempotency_key: This idempotency_key was used for another body; use a new key."
    assert (refused["code"], refused["error"]) == ("idempotency.conflict", said)


async def test_null_clears_a_field_and_what_is_left_out_stays(node: NodeUnderTest) -> None:
    inbox = await done(node, "open_inbox", label="Desk", description="Reads long reports.", rotate=None)
    mine = {"inbox_token": inbox["inbox_token"]}
    await done(node, "open_inbox", **mine, label=None, idempotency_key=None)
    shown = await done(node, "get_inbox", address=inbox["address"])
    assert (shown["label"], shown["description"]) == (None, "Reads long reports.")


OF_ITS_TYPE: dict[str, Any] = {
    **dict.fromkeys(("label", "description", "encryption_key", "callback_url"), ""),
    "contacts": [],
    "card": {},
}
"""Empty values that the tool's schema allows, which has no null."""
CLEARABLE = (*OF_ITS_TYPE, "policy", "ttl_seconds")


@pytest.mark.parametrize("empty", [OF_ITS_TYPE, dict.fromkeys(CLEARABLE, ""), dict.fromkeys(CLEARABLE)])
async def test_an_empty_value_clears_a_field_as_null_does(node: NodeUnderTest, empty: dict[str, Any]) -> None:
    fields: dict[str, Any] = {
        "label": "Desk",
        "description": "Reads long reports.",
        "encryption_key": "A" * 43,
        "callback_url": "https://93.184.216.34/hook",
        "contacts": [ADDRESS],
        "card": {"name": "Desk", "description": "Helps with reports.", "skills": [{"id": "sum", **SUMMARISE}]},
        "policy": "contacts",
        "ttl_seconds": 60,
    }
    inbox = await done(node, "open_inbox", **fields)
    schema = next(
        tool["inputSchema"]["properties"]
        for tool in (await result(node, "tools/list"))["tools"]
        if tool["name"] == "open_inbox"
    )
    kinds = {"string": str, "array": list, "object": dict}
    assert all(isinstance(value, kinds[schema[name]["type"]]) for name, value in OF_ITS_TYPE.items())
    assert not any("minLength" in schema[name] or "enum" in schema[name] for name in OF_ITS_TYPE)

    async def kept() -> dict[bytes, bytes]:
        stored = cast("list[bytes]", await node.store.command("HGETALL", keys.inbox(inbox["address"])))
        return dict(zip(stored[::2], stored[1::2], strict=True))

    before = await kept()
    await done(node, "open_inbox", inbox_token=inbox["inbox_token"], **empty)
    after = await kept()
    for name in OF_ITS_TYPE:
        assert before[name.encode()]
        assert not after.get(name.encode()), name
    if len(empty) == len(CLEARABLE):
        assert (after[b"policy"], int(after[b"ttl"])) == (b"open", 7 * 24 * 3600 * 1000)


async def test_an_empty_value_is_what_it_is_where_nothing_can_be_cleared(node: NodeUnderTest) -> None:
    assert "card.name" in (await failed(node, "register_agent", card={}))["error"]
    assert "body" in (await failed(node, "post_thread", title="An empty post", body=""))["error"]


async def test_what_only_the_other_side_can_read_goes_both_ways(node: NodeUnderTest) -> None:
    inbox = await done(node, "open_inbox", encryption_key="A" * 43)
    mine = {"address": inbox["address"], "inbox_token": inbox["inbox_token"]}
    sent = await done(node, "send_to_inbox", address=inbox["address"], ciphertext="c2VjcmV0")
    (message,) = (await done(node, "read_inbox", **mine))["messages"]
    assert (message["body"], message["ciphertext"]) == (None, "c2VjcmV0")
    await done(node, "settle_message", **mine, id=message["id"], status="done", reply_ciphertext="YW5zd2Vy")
    receipt = {"address": inbox["address"], "id": sent["id"], "receipt_token": sent["receipt_token"]}
    assert (await done(node, "message_status", **receipt))["reply_ciphertext"] == "YW5zd2Vy"


async def test_an_inbox_is_opened_with_a_card(node: NodeUnderTest) -> None:
    card = {"name": "Report desk", "description": "Helps with long documents.", "skills": [{"id": "sum", **SUMMARISE}]}
    inbox = await done(node, "open_inbox", card=card)
    shown = await node.client.get(f"{inbox['a2a_url']}/.well-known/agent-card.json")
    assert shown.json()["name"] == "Report desk"
    assert [agent["inbox"] for agent in (await done(node, "list_agents"))["agents"]] == [inbox["address"]]
