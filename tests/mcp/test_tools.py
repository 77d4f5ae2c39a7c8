"""The tools: their list, and each tool as one HTTP operation under another name (SPEC 4.9)."""

import base64
import hashlib
from typing import Any

import pytest

from node.mcp.tools import TOOLS
from tests.mcp.calls import call, done, failed, post, request, result
from tests.support.answers import NOT_ENGLISH
from tests.support.node_under_test import NodeUnderTest

SPECIFIED = {
    "relay_message": ({"message", "language", "public", "callback_url"}, set[str]()),
    "search_board": ({"query", "limit", "threshold"}, {"query"}),
    "post_thread": ({"title", "body", "author", "callback_url"}, {"title", "body"}),
    "claim_task": ({"id", "assignee_id", "idempotency_key"}, {"id", "assignee_id"}),
    "reply_thread": ({"id", "body", "author"}, {"id", "body"}),
    "list_offered_tasks": ({"limit", "offset"}, set[str]()),
    "publish_task": (
        {"publisher_id", "title", "description", "idempotency_key", "callback_url"},
        {"publisher_id", "title"},
    ),
    "register_artifact": (
        {"publisher_id", "media_type", "byte_size", "digest_sha256"},
        {"publisher_id", "media_type", "byte_size", "digest_sha256"},
    ),
    "create_session": ({"ttl_seconds", "callback_url", "label"}, set[str]()),
    "session_send": ({"id", "body", "author"}, {"id", "body"}),
    "session_poll": ({"id", "since_seq", "limit"}, {"id"}),
    "destroy_session": ({"id", "destroy_token"}, {"id", "destroy_token"}),
    "submit_feedback": ({"feedback_text", "category", "contact_channel"}, {"feedback_text"}),
    "get_node_health": (set[str](), set[str]()),
    "get_thread": ({"id"}, {"id"}),
    "complete_task": ({"id", "claim_token", "result_payload"}, {"id", "claim_token"}),
}
"""Inputs of each tool, and the required ones (SPEC 4.9)."""

RANGES = {
    ("search_board", "limit"): (1, 50, 5),
    ("search_board", "threshold"): (0, 1, 0.7),
    ("list_offered_tasks", "limit"): (1, 50, 20),
    ("list_offered_tasks", "offset"): (0, None, 0),
    ("create_session", "ttl_seconds"): (60, 86400, 900),
    ("session_poll", "since_seq"): (0, None, 0),
    ("session_poll", "limit"): (1, 100, 50),
}
"""Smallest, largest and default value (SPEC 4.9)."""

READERS = {
    *("find_agent", "get_agent", "list_agents", "list_tasks", "get_task_callbacks"),
    *("search_board", "list_offered_tasks", "session_poll", "get_node_health", "get_thread"),
    *(
        "search_tasks",
        "get_task",
        "get_artifact",
        "read_artifact",
        "session_wait",
        "read_events",
        "message_status",
        "get_inbox",
    ),
}

DESTROYERS = {"destroy_session", "cancel_task", "withdraw_message", "close_inbox", "remove_agent"}
REPEATABLE = {
    *("destroy_session", "complete_task", "settle_message", "settle_through", "withdraw_message", "extend_task"),
    *("accept_result", "cancel_task", "register_agent", "remove_agent", *READERS),
}


async def listed(node: NodeUnderTest) -> dict[str, dict[str, Any]]:
    """Return the tools by name."""
    return {tool["name"]: tool for tool in (await result(node, "tools/list"))["tools"]}


async def test_the_tools_have_the_specified_inputs(node: NodeUnderTest) -> None:
    tools = await listed(node)
    shown = {
        name: (set(tool["inputSchema"]["properties"]), set(tool["inputSchema"].get("required", [])))
        for name, tool in tools.items()
    }
    assert {name: inputs for name, inputs in shown.items() if name in SPECIFIED} == SPECIFIED
    assert {*list(tools)[:16]} == SPECIFIED.keys(), "those of SPEC come first"
    assert list(tools) == [tool.name for tool in TOOLS], "the order never changes"


async def test_the_tools_have_the_specified_ranges_and_defaults(node: NodeUnderTest) -> None:
    tools = await listed(node)
    for (name, field), (least, most, default) in RANGES.items():
        schema = tools[name]["inputSchema"]["properties"][field]
        assert (schema["minimum"], schema.get("maximum"), schema["default"]) == (least, most, default)
    feedback = tools["submit_feedback"]["inputSchema"]["properties"]
    assert (feedback["feedback_text"]["minLength"], feedback["feedback_text"]["maxLength"]) == (10, 2000)
    assert feedback["category"]["enum"] == ["bug", "feature", "general", "inquiry"]
    relay = tools["relay_message"]["inputSchema"]
    assert relay["additionalProperties"] is True
    assert (relay["properties"]["language"]["enum"], relay["properties"]["public"]["type"]) == (["en-US"], "boolean")


async def test_a_tool_tells_every_bound_of_its_operation(node: NodeUnderTest) -> None:
    tools = await listed(node)
    definitions = (await node.client.get("/schema.json")).json()["$defs"]
    for name, body in (
        ("register_artifact", "NewArtifact"),
        ("search_board", "SearchQuery"),
        ("session_send", "NewLine"),
    ):
        for field, told in tools[name]["inputSchema"]["properties"].items():
            member = definitions[body]["properties"].get(field, {})
            bounds = {"minimum", "maximum", "minLength", "maxLength"} & member.keys()
            assert {bound: told.get(bound) for bound in bounds} == {bound: member[bound] for bound in bounds}, field


async def test_schemas_are_plain_enough_for_every_client(node: NodeUnderTest) -> None:
    for name, tool in (await listed(node)).items():
        schema = tool["inputSchema"]
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is (name == "relay_message")
        for field, described in schema["properties"].items():
            allowed = {"type", "items", "description", "minimum", "maximum", "default", "minLength", "maxLength"}
            assert set(described) <= allowed | {"enum"}
            assert ("items" in described) is (described.get("type") == "array")
            assert described["description"]
            assert "type" in described or field == "result_payload", "any JSON has no type"


async def test_every_hint_is_explicit(node: NodeUnderTest) -> None:
    for name, tool in (await listed(node)).items():
        hints = tool["annotations"]
        assert set(hints) == {"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
        assert hints["readOnlyHint"] is (name in READERS)
        assert hints["destructiveHint"] is (name in DESTROYERS)
        assert hints["idempotentHint"] is (name in REPEATABLE)
        assert hints["openWorldHint"] is (name not in {"destroy_session", "submit_feedback", "get_node_health"})
        assert tool["title"] == hints["title"]
        assert len(tool["description"]) > 40


async def test_a_message_is_relayed_with_whatever_it_carries(node: NodeUnderTest) -> None:
    relayed = await done(node, "relay_message", message="Hello from one agent to all others.", mood={"level": 3})
    assert relayed["status"] == "acknowledged"
    kept = await node.client.get(f"/api/v1/relay/{relayed['reference_id']}")
    assert kept.json()["payload"] == {"message": "Hello from one agent to all others.", "mood": {"level": 3}}
    thread = await done(node, "get_thread", id=relayed["reference_id"])
    assert thread["source"] == "relay"


async def test_a_silenced_loop_is_said_to_be_one(node: NodeUnderTest) -> None:
    for _ in range(2):
        assert "reference_id" in await done(node, "relay_message", message="The same sentence again and again.")
    assert (await done(node, "relay_message", message="The same sentence again and again."))["status"] == "silenced"


async def test_a_thread_lives(node: NodeUnderTest) -> None:
    thread = await done(node, "post_thread", title="Looking for a CSV parser", body="Who can parse it?", author="a")
    reply = await done(node, "reply_thread", id=thread["id"], body="I can do that for you.", author="b")
    read = await done(node, "get_thread", id=thread["id"])
    assert read["replies"] == [reply]
    assert read == (await node.client.get(f"/api/v1/board/threads/{thread['id']}")).json()
    hits = await done(node, "search_board", query="Looking for a CSV parser", limit=3, threshold=0.5)
    assert [hit["thread_id"] for hit in hits["hits"]] == [thread["id"]]


async def test_a_task_lives(node: NodeUnderTest) -> None:
    task = await done(node, "publish_task", publisher_id="p", title="Summarise a report", idempotency_key="k1")
    assert (
        await done(node, "publish_task", publisher_id="p", title="Summarise a report", idempotency_key="k1")
    ) == task
    offered = await done(node, "list_offered_tasks", limit=1)
    assert [each["id"] for each in offered["tasks"]] == [task["id"]]
    claimed = await done(node, "claim_task", id=task["id"], assignee_id="w", idempotency_key="k2")
    late = await failed(node, "claim_task", id=task["id"], assignee_id="other")
    assert (late["status"], late["code"]) == (409, "task.claimed")
    assert "take another one" in late["error"]
    completed = await done(
        node, "complete_task", id=task["id"], claim_token=claimed["claim_token"], result_payload={"pages": 1}
    )
    assert completed["valid"] is True
    assert (await done(node, "list_offered_tasks"))["tasks"] == []


@pytest.mark.parametrize("payload", [None, False, 0, 1.5, "text", [1, [2]], {"a": {"b": []}}])
async def test_a_result_is_any_json(node: NodeUnderTest, payload: Any) -> None:
    task = await done(node, "publish_task", publisher_id="p", title="Summarise a report")
    claimed = await done(node, "claim_task", id=task["id"], assignee_id="w")
    await done(node, "complete_task", id=task["id"], claim_token=claimed["claim_token"], result_payload=payload)
    assert (await node.client.get(f"/api/v1/tasks/{task['id']}")).json()["result_payload"] == payload


async def test_a_session_lives(node: NodeUnderTest) -> None:
    session = await done(node, "create_session", ttl_seconds=60, label="planning")
    one = session["session_id"]
    assert [(await done(node, "session_send", id=one, body=f"line {n}"))["seq"] for n in (1, 2, 3)] == [1, 2, 3]
    polled = await done(node, "session_poll", id=one, since_seq=1, limit=1)
    assert [line["body"] for line in polled["lines"]] == ["line 2"]
    assert polled["next_since_seq"] == 2
    assert (await failed(node, "destroy_session", id=one, destroy_token="guessed"))["status"] == 403
    await done(node, "destroy_session", id=one, destroy_token=session["destroy_token"])
    assert (await failed(node, "session_poll", id=one))["status"] == 404


DIGEST = hashlib.sha256(b"bytes").digest()
PADDED = base64.b64encode(DIGEST).decode()


@pytest.mark.parametrize("text", [DIGEST.hex(), PADDED, PADDED.rstrip("=")])
async def test_an_artifact_is_registered_by_its_digest(node: NodeUnderTest, text: str) -> None:
    manifest = await done(
        node, "register_artifact", publisher_id="p", media_type="text/plain", byte_size=5, digest_sha256=text
    )
    assert manifest["digest_sha256"] == DIGEST.hex()
    assert manifest["upload_url"]


@pytest.mark.parametrize("digest", ["", "ab", "z" * 64, "é" * 64, base64.b64encode(b"x" * 31).decode(), 5, None])
async def test_a_digest_that_is_none_is_named(node: NodeUnderTest, digest: Any) -> None:
    said = await failed(
        node, "register_artifact", publisher_id="p", media_type="text/plain", byte_size=5, digest_sha256=digest
    )
    assert said["status"] == 422
    assert "digest_sha256" in said["error"]


async def test_feedback_is_sent_once_an_hour(node: NodeUnderTest) -> None:
    assert (await done(node, "submit_feedback", feedback_text="The search works well. Thank you."))["feedback_id"]
    again = await failed(node, "submit_feedback", feedback_text="The search works well. Thank you.")
    assert again["status"] == 429
    assert 3500 < again["retry_after"] <= 3600


async def test_the_health_of_the_node_is_told(node: NodeUnderTest) -> None:
    health = await done(node, "get_node_health")
    assert health == (await node.client.get("/health")).json()
    assert health["capabilities"]["mcp"] is True


@pytest.mark.parametrize("arguments", [None, {}])
async def test_arguments_may_be_absent(node: NodeUnderTest, arguments: Any) -> None:
    outcome = await result(node, "tools/call", {"name": "get_node_health", "arguments": arguments})
    assert outcome["isError"] is False


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("search_board", {"query": "x", "limit": 51}, "limit"),
        ("search_board", {"query": "x", "threshold": 1.5}, "threshold"),
        ("search_board", {}, "query"),
        ("post_thread", {"title": "Only a title"}, "body"),
        ("post_thread", {"title": "x" * 201, "body": "Too long a title."}, "title"),
        ("list_offered_tasks", {"limit": 0}, "limit"),
        ("list_offered_tasks", {"limit": 51}, "limit"),
        ("list_offered_tasks", {"offset": -1}, "offset"),
        ("list_offered_tasks", {"limit": "many"}, "limit"),
        ("list_offered_tasks", {"limit": [1]}, "limit"),
        ("create_session", {"ttl_seconds": 59}, "ttl_seconds"),
        ("create_session", {"ttl_seconds": "long"}, "ttl_seconds"),
        ("session_poll", {"id": "x", "since_seq": -1}, "since_seq"),
        ("session_send", {"body": "x"}, "id"),
        ("session_send", {"id": 5, "body": "x"}, "id"),
        ("get_thread", {}, "id"),
        ("get_thread", {"id": None}, "id"),
        ("open_inbox", {"idempotency_key": ""}, "idempotency_key"),
        ("read_inbox", {"address": "x"}, "inbox_token"),
        ("read_inbox", {"address": "x", "inbox_token": None}, "inbox_token"),
        ("message_status", {"address": "x", "id": "x"}, "receipt_token"),
        ("get_task_callbacks", {"id": "x"}, "publisher_token"),
        ("list_tasks", {"status": "TASK_STATE_COMPLETED"}, "status"),
        ("list_tasks", {"status": 5}, "status"),
        ("submit_feedback", {"feedback_text": "short"}, "feedback_text"),
        ("submit_feedback", {"feedback_text": "Long enough text.", "category": "praise"}, "category"),
        (
            "publish_task",
            {"publisher_id": "p", "title": "Call me", "callback_url": "http://127.0.0.1/"},
            "callback_url",
        ),
    ],
)
async def test_a_wrong_argument_is_named(node: NodeUnderTest, tool: str, arguments: dict[str, Any], named: str) -> None:
    said = await failed(node, tool, **arguments)
    assert (said["status"], said["code"]) == (422, "request.invalid")
    assert said["error"].startswith(f"Invalid arguments: {named}: "), said["error"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("session_poll", {"id": "x", "wait": 30}),
        ("get_thread", {"id": "x", "since_seq": 1}),
        ("get_node_health", {"verbose": True}),
        ("publish_task", {"publisher_id": "p", "title": "A title", "require_proof": True}),
    ],
)
async def test_an_argument_that_a_tool_does_not_have_is_refused(
    node: NodeUnderTest, tool: str, arguments: dict[str, Any]
) -> None:
    said = await failed(node, tool, **arguments)
    assert said["status"] == 422
    assert "unknown; this tool takes" in said["error"]


@pytest.mark.parametrize("value", [None, 3.0])
async def test_what_frameworks_send_for_a_number_is_understood(node: NodeUnderTest, value: float | None) -> None:
    hits = await done(node, "search_board", query="anything at all", limit=value, threshold=value and 0)
    assert hits["hits"] == []
    page = await done(node, "list_offered_tasks", limit=value, offset=value)
    assert (page["limit"], page["offset"]) == ((3, 3) if value else (20, 0))
    session = await done(node, "create_session", ttl_seconds=value and 90.0, label=None, callback_url=None)
    assert session["ttl_seconds"] == (90 if value else 900)
    assert (await done(node, "session_poll", id=session["session_id"], since_seq=value))["lines"] == []


async def test_null_is_no_value_for_what_is_required(node: NodeUnderTest) -> None:
    assert "title" in (await failed(node, "post_thread", title=None, body="A plain body."))["error"]
    assert "ttl_seconds" in (await failed(node, "create_session", ttl_seconds=90.5))["error"]


async def test_names_that_do_not_exist_are_told_back_shortened(node: NodeUnderTest) -> None:
    said = await failed(node, "get_node_health", **{letter * 10_000: 1 for letter in "abcdef"})
    assert len(said["error"]) < 300


@pytest.mark.parametrize("wanted", ["nonsense", "../../health", "a/b?c=d", "01a1fbd5-10f1-7326-b473-b7b7836b6ce8", ""])
async def test_an_id_is_an_id_whatever_it_looks_like(node: NodeUnderTest, wanted: str) -> None:
    said = await failed(node, "get_thread", id=wanted)
    assert (said["status"], said["code"]) == (404, "thread.unknown")


async def test_language_is_judged_as_over_http(node: NodeUnderTest) -> None:
    said = await failed(
        node, "post_thread", title="Bonjour tout le monde", body="Je cherche un agent qui parle le français avec moi."
    )
    assert said == {
        "status": 400,
        "error": f"{NOT_ENGLISH}title, body.",
        "code": "language.not_english",
    }


async def test_an_operations_limit_holds_for_its_tool(node: NodeUnderTest) -> None:
    for number in range(10):
        response = await node.client.post("/api/v1/relay", json={"message": f"Message number {number} of this test."})
        assert response.status_code == 200
    said = await failed(node, "relay_message", message="One message more than the limit allows.")
    assert (said["status"], "wait as long as retry_after says" in said["error"]) == (429, True)
    assert 0 < said["retry_after"] <= 60


async def test_another_clients_limit_is_its_own(node: NodeUnderTest) -> None:
    other = node.client_at("203.0.113.8")
    for number in range(10):
        await other.post("/api/v1/relay", json={"message": f"Message number {number} of this test."})
    assert "reference_id" in await done(node, "relay_message", message="This client has sent nothing before.")
    await other.aclose()


async def test_tool_calls_count_in_a_limit_of_mcp(node: NodeUnderTest) -> None:
    calls = [request("tools/call", {"name": "get_node_health"}, n) for n in range(40)]
    for _ in range(3):
        assert not any(reply["result"]["isError"] for reply in (await post(node, calls)).json())
    response = await post(node, request("tools/call", {"name": "get_node_health"}))
    assert response.headers["ratelimit"].startswith('"mcp";r=0;')
    said = await failed(node, "get_node_health")
    assert (said["status"], said["code"]) == (429, "limit.exceeded")
    assert 0 < said["retry_after"] <= 60


async def test_a_signature_of_the_outer_request_does_not_reach_the_operation(node: NodeUnderTest) -> None:
    content = request("tools/call", {"name": "post_thread", "arguments": {"title": "A title", "body": "A plain body."}})
    response = await post(node, content, signature_input='sig=("@method");created=1', signature="sig=:AAAA:")
    assert response.json()["result"]["structuredContent"]["is_signed"] is False


async def test_text_and_structure_say_the_same(node: NodeUnderTest) -> None:
    line = 'Quotes " and \\ backslashes, line\nbreaks, \U0001f600 and é'
    session = await done(node, "create_session")
    await done(node, "session_send", id=session["session_id"], body=line)
    polled = await done(node, "session_poll", id=session["session_id"])
    assert polled["lines"][0]["body"] == line


async def test_a_result_without_a_body_is_not_a_failure(node: NodeUnderTest) -> None:
    outcome = await call(node, "get_node_health")
    assert [content["type"] for content in outcome["content"]] == ["text"]


async def test_a_task_is_offered_on_terms(node: NodeUnderTest) -> None:
    terms: dict[str, Any] = {"lease_seconds": 60, "require_proof": True, "skills": ["translation"], "deadline": None}
    task = await done(node, "offer_task", publisher_id="p", title="Summarise a report", **terms)
    assert (task["lease_seconds"], task["require_proof"], task["skills"]) == (60, True, ["translation"])
    assert task["publisher_token"]
    schema = (await listed(node))["offer_task"]["inputSchema"]["properties"]
    assert schema["skills"] == {"type": "array", "items": {"type": "string"}} | {
        "description": schema["skills"]["description"],
        "default": [],
    }
