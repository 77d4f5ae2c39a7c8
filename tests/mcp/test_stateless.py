"""Revision 2026-07-28: each request names its revision, and headers repeat what the body says."""

import base64
import json
import tracemalloc
from typing import Any

import pytest

from node.mcp.json_rpc import read
from node.mcp.stateless import check
from tests.mcp.calls import STATELESS, post, request, stateless
from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest

SERVED = [STATELESS, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
KEPT = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover")


async def test_the_server_can_be_discovered(node: NodeUnderTest) -> None:
    response = await stateless(node, "server/discover")
    found = response.json()["result"]
    assert response.status_code == 200
    assert found["supportedVersions"] == SERVED
    assert set(found["capabilities"]) == {"tools", "prompts", "resources"}
    assert found["instructions"]
    assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "relay-node"


@pytest.mark.parametrize("method", KEPT)
async def test_what_stays_the_same_says_how_long(node: NodeUnderTest, method: str) -> None:
    found = (await stateless(node, method)).json()["result"]
    assert (found["resultType"], found["ttlMs"], found["cacheScope"]) == ("complete", 300_000, "public")


async def test_what_is_live_is_not_kept(node: NodeUnderTest) -> None:
    live = (await stateless(node, "resources/read", {"uri": "node://health.json"})).json()["result"]
    recipe = (await stateless(node, "resources/read", {"uri": "node://recipes/python.md"})).json()["result"]
    assert (live["ttlMs"], live["cacheScope"]) == (0, "private")
    assert (recipe["ttlMs"], recipe["cacheScope"]) == (300_000, "public")


async def test_a_tool_is_called(node: NodeUnderTest) -> None:
    called = (await stateless(node, "tools/call", {"name": "get_node_health", "arguments": {}})).json()["result"]
    assert (called["resultType"], called["isError"]) == ("complete", False)
    assert called["structuredContent"]["status"] == "ok"
    assert "ttlMs" not in called
    assert called["_meta"]["io.modelcontextprotocol/serverInfo"]["version"] == "1.0.0"


async def test_a_failed_tool_is_still_a_result(node: NodeUnderTest) -> None:
    response = await stateless(node, "tools/call", {"name": "get_thread", "arguments": {"id": "none"}})
    assert (response.status_code, response.json()["result"]["isError"]) == (200, True)


async def test_a_prompt_is_got(node: NodeUnderTest) -> None:
    params = {"name": "find_a_peer", "arguments": {"query": "parses CSV"}}
    assert (
        "parses CSV"
        in (await stateless(node, "prompts/get", params)).json()["result"]["messages"][0]["content"]["text"]
    )


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "no/such"])
async def test_what_is_not_there_is_not_found(node: NodeUnderTest, method: str) -> None:
    response = await stateless(node, method)
    assert (response.status_code, response.json()["error"]["code"]) == (404, -32601)
    assert response.json()["id"] == 1


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "no_such_tool"}),
        ("tools/list", {"cursor": "more"}),
        ("prompts/get", {"name": "find_a_peer"}),
        ("resources/read", {"uri": "node://no/such"}),
    ],
)
async def test_wrong_params_are_a_bad_request(node: NodeUnderTest, method: str, params: dict[str, Any]) -> None:
    response = await stateless(node, method, params)
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32602)
    if method == "resources/read":
        assert response.json()["error"]["data"] == {"uri": "node://no/such"}


@pytest.mark.parametrize(
    "meta",
    [
        None,
        {},
        {"io.modelcontextprotocol/protocolVersion": STATELESS},
        {"io.modelcontextprotocol/clientCapabilities": {}},
        {"io.modelcontextprotocol/protocolVersion": 5, "io.modelcontextprotocol/clientCapabilities": {}},
    ],
)
async def test_a_request_must_say_its_revision_and_capabilities(node: NodeUnderTest, meta: Any) -> None:
    content = request("tools/list", {} if meta is None else {"_meta": meta})
    response = await post(node, content, mcp_protocol_version=STATELESS, mcp_method="tools/list")
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32602)


@pytest.mark.parametrize(
    "headers",
    [
        {"mcp-method": "prompts/list"},
        {"mcp-method": ""},
        {"mcp-name": "get_thread"},
        {"mcp-name": ""},
        {"mcp-name": "=?base64?!!!?="},
        {"mcp-name": f"=?base64?{base64.b64encode(b'get_node_health').decode()}??"},
        {"mcp-protocol-version": "2099-01-01"},
    ],
)
async def test_headers_must_agree_with_the_body(node: NodeUnderTest, headers: dict[str, str]) -> None:
    response = await stateless(node, "tools/call", {"name": "get_node_health"}, **headers)
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32020)
    assert response.json()["id"] == 1


@pytest.mark.parametrize(
    ("method", "params"),
    [("prompts/get", {"name": "echo_benchmark"}), ("resources/read", {"uri": "node://recipes/python.md"})],
)
async def test_the_header_with_the_name_must_agree_for_every_method_that_has_one(
    node: NodeUnderTest, method: str, params: dict[str, Any]
) -> None:
    assert (await stateless(node, method, params)).status_code == 200
    response = await stateless(node, method, params, **{"mcp-name": "another"})
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32020)


THREAD: dict[str, Any] = {
    "name": "post_thread",
    "arguments": {"title": "Who parses CSV?", "body": "I have a large file."},
}


def naming(version: Any, method: str = "tools/call", **params: Any) -> dict[str, Any]:
    """Return a request whose body names its revision."""
    return request(method, {**params, "_meta": {"io.modelcontextprotocol/protocolVersion": version}})


@pytest.mark.parametrize("version", [STATELESS, "2025-06-18", "2099-01-01", "", None, 5, ["2025-11-25"]])
async def test_a_header_of_an_earlier_revision_must_agree_with_the_body_too(node: NodeUnderTest, version: Any) -> None:
    """Otherwise a proxy in front of the node that reads only the header takes the request for something else."""
    response = await post(node, naming(version, **THREAD), mcp_protocol_version="2025-11-25")
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32020)
    assert response.json()["id"] == 1
    assert (await node.client.get("/api/v1/board")).json()["threads"] == [], "it was not run"


async def test_one_message_of_another_revision_keeps_its_batch_from_being_run(node: NodeUnderTest) -> None:
    batch = [request("tools/call", THREAD), 7, naming(STATELESS, "tools/list")]
    response = await post(node, batch, mcp_protocol_version="2025-03-26")
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32020)
    assert (await node.client.get("/api/v1/board")).json()["threads"] == []


@pytest.mark.parametrize(
    ("content", "header"),
    [
        (naming("2025-11-25", "ping"), "2025-11-25"),
        (naming(STATELESS, "ping"), None),
        (request("ping", {"_meta": {"protocolVersion": STATELESS}}), "2025-11-25"),
        (request("ping", {"_meta": None, "protocolVersion": STATELESS}), "2025-11-25"),
        (request("ping", {"_meta": "protocolVersion"}), "2025-11-25"),
        ([7, naming("2025-03-26", "ping")], "2025-03-26"),
        ([naming("2025-03-26", "ping"), request("ping")], "2025-03-26"),
    ],
)
async def test_what_names_no_other_revision_is_answered(node: NodeUnderTest, content: Any, header: str | None) -> None:
    answers = json_of(await post(node, content, **({} if header is None else {"mcp_protocol_version": header})))
    assert (answers[-1] if isinstance(content, list) else answers)["result"] == {}


async def test_the_revision_in_the_body_is_found_however_its_slash_is_written(node: NodeUnderTest) -> None:
    body = json.dumps(naming(STATELESS, "tools/list")).replace("/protocolVersion", "\\/protocolVersion").encode()
    assert b"\\/" in body
    assert (await post(node, body, mcp_protocol_version="2025-11-25")).status_code == 400


async def test_a_name_in_a_header_may_be_encoded(node: NodeUnderTest) -> None:
    def encoded(name: str) -> dict[str, str]:
        return {"mcp-name": f"=?base64?{base64.b64encode(name.encode()).decode()}?="}

    response = await stateless(node, "tools/call", {"name": "get_node_health"}, **encoded("get_node_health"))
    assert response.status_code == 200
    unknown = await stateless(node, "resources/read", {"uri": "node://no/café"}, **encoded("node://no/café"))
    assert unknown.json()["error"]["code"] == -32602, "it agrees, and there is none"


async def test_what_a_client_can_do_is_not_read(node: NodeUnderTest) -> None:
    """Reading a megabyte of numbers such as 1e300 would take seconds; the number here could not be read at all."""
    meta = (
        f'{{"io.modelcontextprotocol/protocolVersion":"{STATELESS}",'
        '"io.modelcontextprotocol/clientCapabilities":{"experimental":{"limit":1e400}}}'
    )
    body = f'{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{meta}}}}}'.encode()
    headers = {"mcp-protocol-version": STATELESS, "mcp-method": "tools/list"}
    assert (await post(node, body, **headers)).status_code == 200


def test_no_member_of_what_a_client_can_do_becomes_a_value() -> None:
    """Otherwise 90,000 members would take 30 ms, and 12 MB."""
    capabilities = json.dumps({str(number): 1 for number in range(90_000)})
    meta = (
        f'{{"io.modelcontextprotocol/protocolVersion":"{STATELESS}",'
        f'"io.modelcontextprotocol/clientCapabilities":{capabilities}}}'
    )
    message = read(f'{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{meta}}}}}'.encode())
    tracemalloc.start()
    check(message, {b"mcp-protocol-version": STATELESS.encode(), b"mcp-method": b"tools/list"})
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 64 * 1024


async def test_a_revision_of_the_future_is_told_what_is_spoken(node: NodeUnderTest) -> None:
    meta: Any = {
        "io.modelcontextprotocol/protocolVersion": "2099-01-01",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    content = request("tools/list", {"_meta": meta})
    said = json_of(await post(node, content, mcp_protocol_version="2099-01-01", mcp_method="tools/list"), 400)["error"]
    assert (said["code"], said["data"]) == (-32022, {"supported": SERVED, "requested": "2099-01-01"})


async def test_a_batch_is_no_message_any_more(node: NodeUnderTest) -> None:
    response = await post(node, [request("tools/list")], mcp_protocol_version=STATELESS)
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32600)


async def test_a_notification_is_accepted(node: NodeUnderTest) -> None:
    content = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    assert (await post(node, content, mcp_protocol_version=STATELESS)).status_code == 202


@pytest.mark.parametrize(
    "content",
    [
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
    ],
)
async def test_what_gets_no_answer_must_be_of_a_revision_that_is_spoken(node: NodeUnderTest, content: Any) -> None:
    said = json_of(await post(node, content, mcp_protocol_version="2099-01-01"), 400)
    assert (said["id"], said["error"]["code"]) == (None, -32022)
    assert said["error"]["data"] == {"supported": SERVED, "requested": "2099-01-01"}
