"""Contracts handled by MCP alone (NETWORK 4): offered with conditions, waited for, worked on, failed, retried,
reviewed.
"""

import asyncio
import json
import re
from typing import Any

from node.tasks.model import STATUSES
from tests.mcp.calls import done, error, failed, result
from tests.support.node_under_test import NodeUnderTest

OFFER: dict[str, Any] = {
    "publisher_id": "desk",
    "title": "Count the apples in this picture",
    "skills": ["counting"],
    "max_attempts": 2,
    "lease_seconds": 60,
    "review_seconds": 600,
    "require_proof": True,
}


async def test_a_worker_waits_for_work_fails_once_and_its_publisher_decides(node: NodeUnderTest) -> None:
    assert await done(node, "claim_next_task", assignee_id="worker", skills=["cooking"]) == {"status": "nothing"}
    waiting = asyncio.create_task(done(node, "claim_next_task", assignee_id="worker", skills=["counting"], wait=20))
    picture = await done(node, "upload_artifact", publisher_id="desk", media_type="text/plain", text="o o o")
    offer = await done(node, "offer_task", **OFFER, input_artifact_ids=[picture["id"]])
    task, publisher = offer["id"], offer["publisher_token"]
    claim = await waiting
    assert claim["id"] == task
    mine = {"id": task, "claim_token": claim["claim_token"]}
    assert (await done(node, "extend_task", **mine))["status"] == "claimed"
    again = await done(node, "fail_task", **mine, code="input.unreadable", message="The picture is dark.")
    assert again["status"] == "offered"

    claim = await done(node, "claim_next_task", assignee_id="other", skills=["counting", "drawing"], wait=20)
    mine = {"id": task, "claim_token": claim["claim_token"]}
    assert (await done(node, "complete_task", **mine, result_payload={"apples": 2}))["status"] == "submitted"
    seen = await done(node, "get_task", id=task, wait=20, status="claimed")
    assert (seen["status"], seen["result_payload"]) == ("submitted", {"apples": 2})
    assert [each["reason"]["code"] for each in seen["attempts"]] == ["input.unreadable"]

    rejected = await done(node, "reject_result", id=task, publisher_token=publisher, reason="Count once more.")
    assert (rejected["status"], rejected["rejection"]) == ("in_progress", "Count once more.")
    await done(node, "complete_task", **mine, result_payload={"apples": 3})
    assert (await done(node, "accept_result", id=task, publisher_token=publisher))["status"] == "completed"
    events = (await done(node, "read_events", topic=f"task:{task}", cursor="earliest"))["events"]
    assert [event["type"].partition(".")[2] for event in events] == [
        *("offered", "claimed", "failed", "claimed", "submitted", "in_progress", "submitted", "completed")
    ]


async def test_a_publisher_takes_back_and_tries_again(node: NodeUnderTest) -> None:
    offer = await done(node, "offer_task", publisher_id="desk", title="Count the apples in this picture")
    task, publisher = offer["id"], offer["publisher_token"]
    claim = await done(node, "claim_next_task", assignee_id="worker")
    await done(node, "release_task", id=task, claim_token=claim["claim_token"])
    claim = await done(node, "claim_next_task", assignee_id="worker")
    failure = {"code": "no.tool", "message": "There is no tool for it.", "retryable": False}
    assert (await done(node, "fail_task", id=task, claim_token=claim["claim_token"], **failure))["status"] == "failed"
    again = {"id": task, "publisher_token": publisher, "idempotency_key": "secret-of-the-publisher"}
    assert [(await done(node, "retry_task", **again))["status"] for _ in range(2)] == ["offered", "offered"]
    assert (await failed(node, "cancel_task", id=task, publisher_token="wrong"))["status"] == 403
    assert (await done(node, "cancel_task", id=task, publisher_token=publisher))["status"] == "canceled"


async def test_a_small_artifact_goes_and_comes_without_http(node: NodeUnderTest) -> None:
    async with node.worker():
        for given in ({"text": "name,size\nrelay,1\n"}, {"base64": "/wD+"}):
            stored = await done(node, "upload_artifact", publisher_id="desk", media_type="application/x-test", **given)
            ready = await done(node, "get_artifact", id=stored["id"], wait=20, status="verifying")
            assert ready["status"] == "available"
            read = await done(node, "read_artifact", id=stored["id"])
            assert {name: read[name] for name in given} == given
    assert "base64" in str(await failed(node, "upload_artifact", publisher_id="d", media_type="a/b", base64="?"))
    assert "exactly one" in str(await failed(node, "upload_artifact", publisher_id="d", media_type="a/b"))
    unknown = "0192f0c1-2d3e-7a4b-8c5d-6e7f80910203"
    assert (await failed(node, "read_artifact", id=unknown))["code"] == "artifact.unknown"


async def test_a_session_is_waited_for(node: NodeUnderTest) -> None:
    session = (await done(node, "create_session"))["session_id"]
    waiting = asyncio.create_task(done(node, "session_wait", id=session, wait=20))
    await done(node, "session_send", id=session, body="Step 1 is done.")
    assert [line["body"] for line in (await waiting)["lines"]] == ["Step 1 is done."]


async def test_resources_show_what_has_an_id_without_changing_it(node: NodeUnderTest) -> None:
    offer = await done(node, "offer_task", publisher_id="desk", title="Count the apples in this picture")
    thread = await done(node, "post_thread", title="Looking for a parser", body="Who can parse a table of numbers?")
    for uri, entity in ((f"node://tasks/{offer['id']}", offer["id"]), (f"node://threads/{thread['id']}", thread["id"])):
        (content,) = (await result(node, "resources/read", {"uri": uri}))["contents"]
        assert (content["uri"], json.loads(content["text"])["id"]) == (uri, entity)
        assert "publisher_token" not in content["text"]
    for uri in ("node://tasks/nothing", "node://tasks/", "node://nothing/1"):
        assert (await error(node, "resources/read", {"uri": uri}))["data"]["uri"] == uri


async def test_tasks_of_a_status_are_listed_and_offers_are_waited_for(node: NodeUnderTest) -> None:
    offer = {"publisher_id": "desk", "title": "Count the apples in this picture"}
    counting = await done(node, "offer_task", **offer, skills=["counting"])
    await done(node, "offer_task", publisher_id="other", title="Count the pears in this picture")
    assert (await done(node, "list_tasks"))["total"] == 2
    for narrowed in ({"skill": "counting"}, {"publisher_id": "desk"}):
        assert [each["id"] for each in (await done(node, "list_tasks", **narrowed))["tasks"]] == [counting["id"]]
    since = (await done(node, "list_tasks", limit=1))["next_since"]
    waiting = asyncio.create_task(done(node, "list_tasks", since=since, wait=20))
    late = await done(node, "offer_task", publisher_id="late", title="Count the plums in this picture")
    assert [each["id"] for each in (await waiting)["tasks"]] == [late["id"]]

    claim = await done(node, "claim_task", id=late["id"], assignee_id="worker")
    failure = {"code": "no.tool", "message": "There is no tool for it.", "retryable": False}
    await done(node, "fail_task", id=late["id"], claim_token=claim["claim_token"], **failure)
    assert [each["id"] for each in (await done(node, "list_tasks", status="failed"))["tasks"]] == [late["id"]]
    status = {tool["name"]: tool for tool in (await result(node, "tools/list"))["tools"]}["list_tasks"]["inputSchema"]
    assert set(status["properties"]["status"]["enum"]) == set(STATUSES), "no others, and all of them"


async def test_a_publisher_sees_what_became_of_its_callbacks(node: NodeUnderTest) -> None:
    offer = {"publisher_id": "desk", "title": "Count the apples in this picture"}
    task = await done(node, "offer_task", **offer, callback_url="https://hooks.example/")
    page = await done(node, "get_task_callbacks", id=task["id"], publisher_token=task["publisher_token"], since=0)
    assert page["callbacks"] == []
    refused = await failed(node, "get_task_callbacks", id=task["id"], publisher_token="wrong")
    assert refused["code"] == "task.publisher"


async def test_a_model_is_told_what_to_do_next_with_a_claim(node: NodeUnderTest) -> None:
    """Whichever tool claims: a claim that the model does not extend lapses while it works."""
    tools = {tool["name"]: tool for tool in (await result(node, "tools/list"))["tools"]}
    for name in ("claim_task", "claim_next_task"):
        assert words(tools[name]) >= {"claim_token", "lease_seconds", "extend_task", "complete_task"}
    for tool in tools.values():
        if token := tool["inputSchema"]["properties"].get("claim_token"):
            assert words(token) >= {"claim_task", "claim_next_task"}
    assert words(tools["complete_task"]) >= {"submitted", "get_task", "result_schema"}
    assert words(tools["read_artifact"]) >= {"verifying", "get_artifact"}


async def test_a_token_without_which_a_call_is_refused_is_required(node: NodeUnderTest) -> None:
    """If the publisher_token were optional, a model would leave it out."""
    for tool in (await result(node, "tools/list"))["tools"]:
        tokens = {name for name in tool["inputSchema"]["properties"] if name.endswith("_token")}
        if tool["name"] not in ("open_inbox", "register_agent", "read_events"):
            assert tokens <= set(tool["inputSchema"].get("required", ())), tool["name"]


def words(described: dict[str, Any]) -> set[str]:
    return set(re.findall(r"\w+", described["description"]))
