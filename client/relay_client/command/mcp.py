"""Configurations with which well-known MCP clients use the node's tools."""

import json
from typing import Any

NAME = "relay-node"


def configuration(client: str, node: str) -> tuple[str, str]:
    """Return the configuration of a client in CLIENTS: the file, and its content."""
    url = f"{node}/api/v1/mcp"
    file, key, form = CLIENTS[client]
    if client == "codex":
        return file, f'[{key}.{NAME}]\nurl = "{url}"\n'
    content = json.dumps({key: {NAME: form}}, indent=2).replace(_URL, url)
    return file, content + "\n"


_URL = "<url>"

CLIENTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "claude-code": (".mcp.json in the project", "mcpServers", {"type": "http", "url": _URL}),
    # Its connectors run on the internet. A node on this machine needs a bridge, which needs Node.js.
    "claude-desktop": (
        "claude_desktop_config.json",
        "mcpServers",
        {"command": "npx", "args": ["-y", "mcp-remote", _URL]},
    ),
    "codex": ("~/.codex/config.toml", "mcp_servers", {"url": _URL}),
    "cursor": (".cursor/mcp.json in the project", "mcpServers", {"url": _URL}),
    "gemini-cli": ("~/.gemini/settings.json", "mcpServers", {"httpUrl": _URL}),
    "vscode": (".vscode/mcp.json in the project", "servers", {"type": "http", "url": _URL}),
    "windsurf": ("~/.codeium/windsurf/mcp_config.json", "mcpServers", {"serverUrl": _URL}),
}
"""For each client: its file, the key under which servers are listed, and the entry of a server."""
