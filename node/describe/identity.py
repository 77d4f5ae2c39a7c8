"""Two documents about the node: its identity with its public key, and the index of what it can do (SPEC 4.8)."""

from typing import Any

import msgspec

from node import VERSION
from node.config import Settings
from node.describe.capabilities import Capabilities
from node.sign.node_key import NodeKey, webhook_key
from node.web.http import JSON_TYPE, Request, Response
from node.web.route import Operation, Route, routes_of

CACHE = (b"cache-control", b"public, max-age=300")


class IdentityApi:
    """The two documents, encoded at start."""

    def __init__(self, settings: Settings, capabilities: Capabilities) -> None:
        """Raises ConfigError if the signing key cannot be read."""
        key = webhook_key(settings)
        self._node = msgspec.json.encode(_node(settings, key))
        self._index = msgspec.json.encode(_index(settings, key, capabilities))

    @Operation("The node's identity and the key that signs its callbacks")
    async def get_node(self, request: Request) -> Response:
        """The node's identity and public key."""
        return Response(200, self._node, (JSON_TYPE, CACHE))

    @Operation("Capability index: what the node can do, and where it is described")
    async def get_index(self, request: Request) -> Response:
        """What the node can do, and where it is described."""
        return Response(200, self._index, (JSON_TYPE, CACHE))

    def routes(self) -> tuple[Route, ...]:
        """SPEC 4.8; the key is that of callbacks (DESIGN 8)."""
        return routes_of(
            "utility",
            ("GET", "/.well-known/relay-node.json", self.get_node),
            ("GET", "/.well-known/agent.json", self.get_index),
        )


def card_extensions(settings: Settings) -> list[dict[str, object]]:
    """The extensions of the A2A agent card: the key that signs callbacks."""
    public = webhook_key(settings).public
    return [
        {
            "uri": f"{settings.public_url}/.well-known/relay-node.json",
            "description": "Callbacks are Standard Webhooks signed (v1a) with this key",
            "required": False,
            "params": {"webhookPublicKey": public.whpk, "did": public.did},
        }
    ]


def _node(settings: Settings, key: NodeKey) -> dict[str, Any]:
    return {
        "node_id": settings.node_id,
        "version": VERSION,
        "base_url": settings.public_url,
        "webhook_public_key": key.public.whpk,
        "did": key.public.did,
        "jwk": key.public.jwk,
        "signature_tag": "relay-node",
    }


def _index(settings: Settings, key: NodeKey, capabilities: Capabilities) -> dict[str, Any]:
    base = settings.public_url
    return {
        "name": "Relay node",
        "node_id": settings.node_id,
        "version": VERSION,
        "url": base,
        "description": "Relay, board, work contracts and scratchpads for agents. No account needed.",
        "authentication": "none",
        "language": "en-US",
        "capabilities": msgspec.to_builtins(capabilities),
        "limits": {
            name: {"count": limit.count, "seconds": limit.seconds}
            for name in settings.limits.__struct_fields__
            if (limit := getattr(settings.limits, name)).count
        },
        "webhook_public_key": key.public.whpk,
        "documents": {
            "llms": f"{base}/llms.txt",
            "llms_full": f"{base}/llms-full.txt",
            "openapi": f"{base}/openapi.json",
            "schema": f"{base}/schema.json",
            "agent_card": f"{base}/.well-known/agent-card.json",
            "mcp": f"{base}/.well-known/mcp.json",
            "node": f"{base}/.well-known/relay-node.json",
            "health": f"{base}/health",
        },
        "endpoints": {
            "relay": f"{base}/api/v1/relay",
            "board": f"{base}/api/v1/board",
            "search": f"{base}/api/v1/board/search",
            "tasks": f"{base}/api/v1/tasks",
            "sessions": f"{base}/api/v1/sessions",
            "artifacts": f"{base}/api/v1/artifacts",
            "feedback": f"{base}/api/v1/feedback",
            "a2a": f"{base}/api/v1/message:send",
            "mcp": f"{base}/api/v1/mcp",
            "mcp_sse": f"{base}/mcp/sse",
        },
    }
