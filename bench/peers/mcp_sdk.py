"""The server of the official Python MCP SDK: tools/call over streamable HTTP, stateless, JSON answers."""

from bench.client import Call
from bench.lab import Peer
from bench.payload import MCP_HEADERS, Template, tool_call
from bench.peers.python import uvicorn

_call = Template("POST", "/mcp", **MCP_HEADERS)

PEER = Peer(
    name="mcp sdk",
    about="one tool that returns a fixed object; no store, no limits",
    start=lambda home: uvicorn("mcp sdk", "mcp_tools", home),
    calls=lambda number: Call(_call(tool_call(number, "get_node_health", {}))),
)
