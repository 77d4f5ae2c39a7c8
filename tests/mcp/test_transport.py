"""/api/v1/mcp as HTTP: methods, headers, revisions, and which pages may call it."""

import json
from typing import Any

import pytest

from node.web.accept import MAX_ACCEPT_CHARACTERS
from tests.mcp.calls import PATH, post, request
from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest

PING = request("ping")
PONG: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.parametrize("path", [PATH, f"{PATH}/"])
async def test_it_is_served_with_and_without_a_slash(node: NodeUnderTest, path: str) -> None:
    assert (await node.client.post(path, json=PING)).json() == PONG


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH"])
async def test_other_methods_are_told_to_post(node: NodeUnderTest, method: str) -> None:
    response = await node.client.request(method, PATH)
    assert response.status_code == 405
    assert "POST" in response.headers["allow"]
    assert response.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "application/json",
        "application/*;q=0.5",
        "text/event-stream, */*",
        "Application/JSON",
        "text/html, application/json ; q=0.001",
        "*/*;q=0, application/*",
    ],
)
async def test_json_is_the_answer_wherever_it_is_accepted(node: NodeUnderTest, accept: str) -> None:
    response = await post(node, PING, accept=accept)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")


@pytest.mark.parametrize(
    "accept",
    [
        "text/event-stream",
        "TEXT/Event-Stream",
        "text/*, application/json;q=0",
        "*/*, application/json; q=0.000",
        "*/*, application/*;q=0",
    ],
)
async def test_a_client_that_takes_only_events_gets_one_event(node: NodeUnderTest, accept: str) -> None:
    response = await post(node, PING, accept=accept)
    assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream")
    assert response.text == 'event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'
    refused = await post(node, b"{", accept=accept)
    assert (refused.status_code, refused.headers["content-type"]) == (400, "application/json")


async def test_of_a_header_that_comes_twice_the_first_counts_as_everywhere(node: NodeUnderTest) -> None:
    twice = [("content-type", "application/json"), ("accept", "application/json"), ("accept", "text/event-stream")]
    response = await node.client.post(PATH, content=json.dumps(PING), headers=twice)
    assert response.headers["content-type"] == "application/json"


async def test_of_a_long_accept_the_beginning_is_read(node: NodeUnderTest) -> None:
    commas = "," * MAX_ACCEPT_CHARACTERS
    assert (await post(node, PING, accept=f"application/json{commas}")).status_code == 200
    assert (await post(node, PING, accept=f"{commas}application/json")).status_code == 406


@pytest.mark.parametrize("accept", ["text/html", "application/json;q=0", "*/*;q=0", "application/jsonl"])
async def test_a_client_that_takes_neither_is_refused(node: NodeUnderTest, accept: str) -> None:
    assert json_of(await post(node, PING, accept=accept), 406)["error"]["code"] == -32600


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonl"])
async def test_a_body_that_is_not_said_to_be_json_is_refused(node: NodeUnderTest, content_type: str) -> None:
    assert json_of(await post(node, PING, content_type=content_type), 415)["id"] is None


async def test_parameters_of_the_content_type_are_no_obstacle(node: NodeUnderTest) -> None:
    assert (await post(node, PING, content_type="Application/JSON; charset=utf-8")).json() == PONG


async def test_a_body_over_one_mebibyte_is_refused_as_json_rpc(node: NodeUnderTest) -> None:
    response = await post(node, request("ping", {"x": "y" * 2**20}))
    assert response.status_code == 413
    assert response.json()["error"]["code"] == -32600
    assert response.headers["x-error-code"] == "body.too_large"


@pytest.mark.parametrize("version", ["", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_every_revision_with_a_handshake_is_served(node: NodeUnderTest, version: str) -> None:
    assert (await post(node, PING, mcp_protocol_version=version)).json() == PONG


@pytest.mark.parametrize("version", ["1.0", "2025-03-27", "2099-01-01", "latest"])
async def test_an_unknown_revision_is_refused(node: NodeUnderTest, version: str) -> None:
    response = await post(node, PING, mcp_protocol_version=version)
    said = response.json()["error"]
    assert (response.status_code, said["code"]) == (400, -32022)
    assert (said["message"], said["data"]["requested"]) == ("Unsupported protocol version", version)


async def test_a_session_id_that_nobody_issued_is_ignored(node: NodeUnderTest) -> None:
    response = await post(node, PING, mcp_session_id="made-up")
    assert response.json() == PONG
    assert "mcp-session-id" not in response.headers


@pytest.mark.parametrize(
    "origin",
    ["http://node.example", "https://node.example:8443", "http://localhost:6274", "http://127.0.0.1", "http://[::1]:1"],
)
async def test_pages_of_the_node_and_of_this_machine_may_call(node: NodeUnderTest, origin: str) -> None:
    for accept in ("application/json", "text/event-stream"):
        response = await post(node, PING, origin=origin, accept=accept)
        assert response.status_code == 200
        assert response.headers.get_list("access-control-allow-origin") == [origin]
        assert response.headers["vary"] == "Origin"
        assert "Mcp-Protocol-Version" in response.headers["access-control-expose-headers"]


@pytest.mark.parametrize("origin", ["https://evil.example", "http://node.example.evil.example", "null", "http://["])
async def test_pages_of_others_may_not(node: NodeUnderTest, origin: str) -> None:
    for response in (
        await post(node, PING, origin=origin),
        await node.client.options(PATH, headers={"origin": origin, "access-control-request-method": "POST"}),
        await node.client.get("/mcp/sse", headers={"origin": origin}),
        await node.client.post("/mcp/messages?session_id=x", json=PING, headers={"origin": origin}),
    ):
        assert response.status_code == 403
        assert response.headers["x-error-code"] == "origin.refused"
        assert response.json()["error"]["code"] == -32600


async def test_a_browser_is_told_that_its_page_may_call(node: NodeUnderTest) -> None:
    origin = "http://localhost:6274"
    response = await node.client.options(
        PATH,
        headers={
            "origin": origin,
            "access-control-request-method": "POST",
            "access-control-request-headers": "content-type, mcp-protocol-version",
        },
    )
    assert response.status_code == 204
    assert response.headers.get_list("access-control-allow-origin") == [origin]
    allowed = response.headers["access-control-allow-headers"].lower()
    assert all(name in allowed for name in ("content-type", "mcp-protocol-version", "mcp-method", "mcp-name"))
    assert "POST" in response.headers["access-control-allow-methods"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "node.example.evil.example"])
async def test_a_name_that_is_not_the_nodes_is_a_rebinding_attack(node: NodeUnderTest, host: str) -> None:
    assert (await post(node, PING, host=host)).status_code == 421
    assert (await post(node, PING, host=host, origin=f"http://{host}")).status_code == 421


@pytest.mark.parametrize("host", ["node.example:8000", "localhost", "127.0.0.1:8000", "[::1]:8000", "192.168.1.5:8000"])
async def test_its_name_and_any_address_are_the_nodes(node: NodeUnderTest, host: str) -> None:
    assert (await post(node, PING, host=host)).json() == PONG


async def test_nothing_suggests_that_a_key_is_needed(node: NodeUnderTest) -> None:
    for path in (
        "/.well-known/oauth-protected-resource",
        f"/.well-known/oauth-protected-resource{PATH}",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
    ):
        response = await node.client.get(path)
        assert (response.status_code, response.headers["content-type"]) == (404, "application/json")
    assert (await node.client.post("/register", json={})).status_code == 404


async def test_the_documents_tell_every_form_of_its_answer(node: NodeUnderTest) -> None:
    responses = (await node.client.get("/openapi.json")).json()["paths"][PATH]["post"]["responses"]
    assert set(responses["200"]["content"]) == {"application/json", "text/event-stream"}
    assert "content" not in responses["202"]
    assert "default" in responses
