"""How clients find this server: its card, which lists its tools (SPEC 4.8, "tool manifest"), and a catalogue.

No revision of MCP defines /.well-known/mcp.json. The card is valid under the server card draft SEP-2127, and has the
members of earlier drafts as well.
"""

from urllib.parse import urlsplit

import msgspec

from node import VERSION
from node.mcp import api, sse
from node.mcp.prompts import Prompts
from node.mcp.resources import TEMPLATES, Resources
from node.mcp.tool_calls import ToolCalls
from node.mcp.versions import CAPABILITIES, INSTRUCTIONS, NAME, PREFERRED, SERVER_INFO, STATELESS, TITLE, WITH_HANDSHAKE
from node.web.document import Document, DocumentSet
from node.web.http import Header
from node.web.route import Route

DESCRIPTION = "Public relay, discussion board, task contracts and scratchpad sessions for agents. No key needed."
"""At most 100 characters (SEP-2127)."""

SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
CARD_TYPE = "application/mcp-server-card+json"
CARD_PATH = f"{api.PATH}/server-card"
CATALOG_TYPE = "application/ai-catalog+json"

CORS: tuple[Header, ...] = (
    (b"access-control-allow-methods", b"GET"),
    (b"access-control-allow-headers", b"Content-Type, If-None-Match"),
)


def card_routes(tools: ToolCalls, prompts: Prompts, resources: Resources, base_url: str) -> tuple[Route, ...]:
    """The card at its three addresses, and the catalogue that leads to it."""
    card = _card(tools, prompts, resources, base_url)
    listed = (
        ("/.well-known/mcp.json", card, "application/json", "The tool manifest: MCP server card"),
        ("/.well-known/mcp/server-card.json", card, "application/json", "MCP server card"),
        (CARD_PATH, card, CARD_TYPE, "MCP server card"),
        ("/.well-known/ai-catalog.json", _catalog(base_url), CATALOG_TYPE, "Where the MCP server card is"),
    )
    documents = DocumentSet(
        lambda: {
            path: Document(msgspec.json.encode(content), media_type, headers=CORS)
            for path, content, media_type, _ in listed
        }
    )
    return tuple(
        Route(
            method="GET",
            path=path,
            handler=documents.at(path),
            summary=summary,
            tag="mcp",
            media_type=media_type,
        )
        for path, _, media_type, summary in listed
    )


def _card(tools: ToolCalls, prompts: Prompts, resources: Resources, base_url: str) -> dict[str, object]:
    no_authentication: dict[str, object] = {"required": False, "schemes": []}
    remotes = [
        ("streamable-http", api.PATH, [*WITH_HANDSHAKE, STATELESS]),
        ("sse", sse.PATH, list(WITH_HANDSHAKE)),
    ]
    return {
        "$schema": SCHEMA,
        "name": f"{_reversed(_host(base_url))}/{NAME}",
        "version": VERSION,
        "title": TITLE,
        "description": DESCRIPTION,
        "websiteUrl": f"{base_url}/",
        "remotes": [
            {
                "type": kind,
                "url": base_url + path,
                "supportedProtocolVersions": versions,
                "authentication": no_authentication,
            }
            for kind, path, versions in remotes
        ],
        "protocolVersion": PREFERRED,
        "serverInfo": SERVER_INFO,
        "transport": {"type": "streamable-http", "endpoint": api.PATH},
        "authentication": no_authentication,
        "capabilities": CAPABILITIES,
        "instructions": INSTRUCTIONS,
        "tools": tools.listed(),
        "prompts": prompts.listed(),
        "resources": resources.listed(),
        "resourceTemplates": TEMPLATES,
    }


def _catalog(base_url: str) -> dict[str, object]:
    entry = {"identifier": f"urn:air:{_host(base_url)}:mcp:{NAME}", "type": CARD_TYPE, "url": base_url + CARD_PATH}
    return {"specVersion": "1.0", "entries": [entry]}


def _host(base_url: str) -> str:
    """The host's name; `localhost` if it is an IP address, since identifiers must have a name."""
    host = urlsplit(base_url).hostname or ""
    return host if host.rpartition(".")[2].isalpha() else "localhost"


def _reversed(host: str) -> str:
    return ".".join(reversed(host.split(".")))
