"""The official clients behind one interface: connect, call, and what they know about the server."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from mcp import Client, MCPError
from mcp.client.sse import sse_client

from tests.conformance.javascript import SCRIPTS, node_binary
from tests.support.servers import PATIENCE

LEGACY = "2025-11-25"
MODERN = "2026-07-28"

CLIENTS: Mapping[str, tuple[str, str]] = {
    "python-auto": ("/api/v1/mcp", MODERN),
    "python-legacy": ("/api/v1/mcp", LEGACY),
    "python-pinned": ("/api/v1/mcp", MODERN),
    "python-sse": ("/mcp/sse", LEGACY),
    "v1-http": ("/api/v1/mcp", LEGACY),
    "v1-sse": ("/mcp/sse", LEGACY),
    "v2-http": ("/api/v1/mcp", LEGACY),
    "v2-auto": ("/api/v1/mcp", MODERN),
    "v2-pinned": ("/api/v1/mcp", MODERN),
    "v2-sse": ("/mcp/sse", LEGACY),
}
"""For each client, the path it is given, and the protocol revision that it agrees on with the node."""

MODES = {"python-auto": "auto", "python-legacy": "legacy", "python-pinned": MODERN, "python-sse": "auto"}


class Refusal(Exception):
    """A JSON-RPC error, as reported by the client."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Caller(Protocol):
    """A connected client. All values are JSON, with the names used on the wire."""

    version: str
    server: dict[str, Any]
    capabilities: dict[str, Any]
    instructions: str

    async def ask(self, method: str, **given: Any) -> dict[str, Any]:
        """Call a method, named as in the JavaScript clients: `listTools`, `callTool`, ... Raises Refusal."""
        ...


@asynccontextmanager
async def connected(kind: str, url: str) -> AsyncGenerator[Caller]:
    """Connect a client of one kind to the node at `url`."""
    address = url + CLIENTS[kind][0]
    make = PythonCaller.connect if kind in MODES else JavaScriptCaller.connect
    async with asyncio.timeout(2 * PATIENCE), make(kind, address) as caller:
        yield caller


async def done(caller: Caller, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the result of a tool that must succeed. It must be the same as text and as structured content."""
    outcome = await caller.ask("callTool", name=tool, arguments=arguments)
    assert not outcome.get("isError"), outcome
    assert json.loads(outcome["content"][0]["text"]) == outcome["structuredContent"]
    return outcome["structuredContent"]


async def failed(caller: Caller, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the error that a model reads from a tool that must fail."""
    outcome = await caller.ask("callTool", name=tool, arguments=arguments)
    assert outcome["isError"] is True, outcome
    return json.loads(outcome["content"][0]["text"])


class PythonCaller:
    """The Python SDK, mcp."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.version = client.protocol_version
        self.server = _json(client.server_info)
        self.capabilities = _json(client.server_capabilities)
        self.instructions = client.instructions or ""
        self._methods = {
            "listTools": client.list_tools,
            "callTool": client.call_tool,
            "listPrompts": client.list_prompts,
            "getPrompt": client.get_prompt,
            "listResources": client.list_resources,
            "listResourceTemplates": client.list_resource_templates,
            "readResource": client.read_resource,
        }

    @staticmethod
    @asynccontextmanager
    async def connect(kind: str, address: str) -> AsyncGenerator["PythonCaller"]:
        # By default, it waits five seconds for a connection: too short for a busy machine.
        server = sse_client(address, timeout=PATIENCE) if address.endswith("/sse") else address
        async with Client(server, mode=MODES[kind]) as client:
            yield PythonCaller(client)

    async def ask(self, method: str, **given: Any) -> dict[str, Any]:
        try:
            return _json(await self._methods[method](**given))
        except MCPError as error:
            raise Refusal(error.error.code, error.error.message) from None


class JavaScriptCaller:
    """The JavaScript packages @modelcontextprotocol/sdk and @modelcontextprotocol/client, in a Node.js process."""

    def __init__(self, process: asyncio.subprocess.Process, known: dict[str, Any]) -> None:
        self._process = process
        self.version = known["version"]
        self.server = known["server"]
        self.capabilities = known["capabilities"]
        self.instructions = known["instructions"]

    @staticmethod
    @asynccontextmanager
    async def connect(kind: str, address: str) -> AsyncGenerator["JavaScriptCaller"]:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            node_binary(), str(SCRIPTS / "mcp_client.mjs"), kind, address, stdin=pipe, stdout=pipe, limit=2**22
        )
        try:
            yield JavaScriptCaller(process, await _line(process))
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()

    async def ask(self, method: str, **given: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": method, "with": given}).encode() + b"\n")
        answer = await _line(self._process)
        if "error" in answer:
            raise Refusal(answer["error"].get("code", 0), answer["error"]["message"])
        return answer["result"]


async def _line(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        line = await process.stdout.readline()
    assert line, "the client gave up; its complaint is above"
    return json.loads(line)


def _json(model: Any) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True) if model is not None else {}
