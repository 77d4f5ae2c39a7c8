"""Every official client, over each of its transports, against two web processes."""

import hashlib
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from node.mcp.prompts import ARGUMENTS
from node.mcp.resources import ENTITIES, LIVE_VIEWS
from node.recipes.markdown import RECIPES
from tests.conformance.mcp.clients import CLIENTS, Refusal, connected, done, failed
from tests.support.nodes import NodeProcess
from tests.support.servers import PATIENCE

every_client = pytest.mark.parametrize("kind", CLIENTS)


@every_client
async def test_a_client_and_the_node_agree_on_a_revision(served: NodeProcess, kind: str) -> None:
    async with connected(kind, served.url) as caller:
        assert caller.version == CLIENTS[kind][1]
        if kind != "python-pinned":  # this client never asks who the server is
            assert set(caller.capabilities) == {"tools", "prompts", "resources"}
            assert (caller.server["name"], caller.server["version"]) == ("relay-node", "1.0.0")
            assert "plain English" in caller.instructions


@every_client
async def test_a_client_sees_the_whole_catalogue(served: NodeProcess, kind: str) -> None:
    async with connected(kind, served.url) as caller:
        tools = (await caller.ask("listTools"))["tools"]
        assert tools == httpx2.get(f"{served.url}/.well-known/mcp.json", timeout=PATIENCE).json()["tools"]
        prompts = (await caller.ask("listPrompts"))["prompts"]
        assert [prompt["name"] for prompt in prompts] == list(ARGUMENTS)
        resources = (await caller.ask("listResources"))["resources"]
        assert [resource["name"] for resource in resources] == [*RECIPES, *(live.name for live in LIVE_VIEWS)]
        templates = (await caller.ask("listResourceTemplates"))["resourceTemplates"]
        names = [template["uriTemplate"] for template in templates]
        assert names == ["node://recipes/{name}.md", *(f"node://{name}/{{id}}" for name in ENTITIES)]


@every_client
async def test_a_client_reads_prompts_and_resources(served: NodeProcess, kind: str) -> None:
    async with connected(kind, served.url) as caller:
        for name, argument in ARGUMENTS.items():
            given = {argument[0]: "a thing to do"} if argument else {}
            (message,) = (await caller.ask("getPrompt", name=name, arguments=given))["messages"]
            assert served.url in message["content"]["text"]
            assert all(value in message["content"]["text"] for value in given.values())
        for uri in [f"node://recipes/{name}.md" for name in RECIPES] + [live.uri for live in LIVE_VIEWS]:
            (content,) = (await caller.ask("readResource", uri=uri))["contents"]
            assert (content["uri"], bool(content["text"])) == (uri, True)


@every_client
async def test_a_client_uses_every_tool(served: NodeProcess, kind: str) -> None:
    async with connected(kind, served.url) as caller:
        assert (await done(caller, "get_node_health"))["status"] == "ok"
        mark = uuid4().hex
        relayed = await done(caller, "relay_message", message=f"Hello to all other agents, says {kind}.", mark=mark)
        assert (await done(caller, "get_thread", id=relayed["reference_id"]))["source"] == "relay"

        thread = await done(caller, "post_thread", title="Looking for a CSV parser", body="Who can parse one?")
        reply = await done(caller, "reply_thread", id=thread["id"], body="I can parse that for you.", author=kind)
        assert (await done(caller, "get_thread", id=thread["id"]))["replies"] == [reply]
        hits = await done(caller, "search_board", query="Looking for a CSV parser", limit=50, threshold=0.5)
        assert thread["id"] in [hit["thread_id"] for hit in hits["hits"]]

        task = await done(caller, "publish_task", publisher_id="p", title="Summarise a report", idempotency_key=mark)
        assert task["id"] in [each["id"] for each in (await done(caller, "list_offered_tasks", limit=50))["tasks"]]
        claim = await done(caller, "claim_task", id=task["id"], assignee_id=kind)
        assert (await failed(caller, "claim_task", id=task["id"], assignee_id="late"))["status"] == 409
        token = claim["claim_token"]
        completed = await done(caller, "complete_task", id=task["id"], claim_token=token, result_payload=[1, None])
        assert completed["valid"] is True

        session = await done(caller, "create_session", ttl_seconds=60, label=kind)
        one = session["session_id"]
        assert (await done(caller, "session_send", id=one, body="A line \U0001f600"))["seq"] == 1
        assert (await done(caller, "session_poll", id=one))["lines"][0]["body"] == "A line \U0001f600"
        await done(caller, "destroy_session", id=one, destroy_token=session["destroy_token"])
        assert (await failed(caller, "session_poll", id=one))["status"] == 404

        digest = hashlib.sha256(mark.encode()).hexdigest()
        manifest = {"publisher_id": kind, "media_type": "text/plain", "byte_size": 32, "digest_sha256": digest}
        assert (await done(caller, "register_artifact", **manifest))["upload_url"]
        assert (await done(caller, "submit_feedback", feedback_text="All tools work well. Thank you."))["feedback_id"]


@every_client
async def test_a_client_is_told_what_went_wrong(served: NodeProcess, kind: str) -> None:
    async with connected(kind, served.url) as caller:
        refused = await failed(caller, "list_offered_tasks", limit=51)
        assert (refused["status"], "limit" in refused["error"]) == (422, True)
        assert (await failed(caller, "session_poll", id="x", wait=5))["status"] == 422
        foreign = await failed(
            caller, "post_thread", title="Bonjour", body="Je cherche un agent qui parle le français."
        )
        assert (foreign["status"], foreign["code"]) == (400, "language.not_english")
        requests: list[tuple[str, dict[str, Any]]] = [
            ("callTool", {"name": "no_such_tool", "arguments": {}}),
            ("getPrompt", {"name": "no_such_prompt"}),
            ("getPrompt", {"name": "find_a_peer", "arguments": {}}),
            ("readResource", {"uri": "node://no/such"}),
        ]
        for method, given in requests:
            with pytest.raises(Refusal) as refusal:
                await caller.ask(method, **given)
            assert refusal.value.code in {-32602, -32002}
        assert (await done(caller, "get_node_health"))["status"] == "ok", "a refusal leaves the client connected"
