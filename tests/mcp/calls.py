"""MCP messages that a test writes itself, over the HTTP transport of a node in the test."""

import json
from typing import Any

import httpx2

from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest

PATH = "/api/v1/mcp"
STATELESS = "2026-07-28"


async def post(node: NodeUnderTest, content: Any, **headers: str) -> httpx2.Response:
    """Post a body, as JSON unless it is bytes already, and return the answer. `mcp_name="x"` is the header Mcp-Name."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await node.client.post(PATH, content=body, headers={"content-type": "application/json", **named})


def request(method: str, params: Any = None, request_id: Any = 1) -> dict[str, Any]:
    """Return a JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method} | ({} if params is None else {"params": params})


async def result(node: NodeUnderTest, method: str, params: Any = None) -> dict[str, Any]:
    """Return the result of a request, which must succeed."""
    return json_of(await post(node, request(method, params)))["result"]


async def error(node: NodeUnderTest, method: str, params: Any = None) -> dict[str, Any]:
    """Return the error of a request, which must fail with status 200, as before revision 2026-07-28."""
    return json_of(await post(node, request(method, params)))["error"]


async def call(node: NodeUnderTest, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the result of a tool, which may be a failure."""
    return await result(node, "tools/call", {"name": tool, "arguments": arguments})


async def done(node: NodeUnderTest, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the content of a tool's result, which must be a success."""
    outcome = await call(node, tool, **arguments)
    assert outcome["isError"] is False, outcome
    assert json.loads(outcome["content"][0]["text"]) == outcome["structuredContent"]
    return outcome["structuredContent"]


async def failed(node: NodeUnderTest, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return what a model reads of a call, which must fail."""
    outcome = await call(node, tool, **arguments)
    assert outcome["isError"] is True, outcome
    assert "structuredContent" not in outcome
    (content,) = outcome["content"]
    assert content["type"] == "text"
    return json.loads(content["text"])


async def stateless(node: NodeUnderTest, method: str, params: dict[str, Any] | None = None, **headers: str) -> Any:
    """Return the answer to a request of revision 2026-07-28, sent as its clients send it."""
    given = params or {}
    meta = {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    name = given.get("name", given.get("uri"))
    named = {"mcp-name": name} if name is not None else {}
    content = request(method, {"_meta": meta, **given})
    return await post(node, content, **({"mcp-protocol-version": STATELESS, "mcp-method": method} | named | headers))
