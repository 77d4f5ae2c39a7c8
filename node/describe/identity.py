"""Two documents about the node: its identity with its public key, and the index of its capabilities (SPEC 4.8)."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from node import VERSION
from node.config import CurrentSettings, Settings
from node.describe.capabilities import CAPABILITIES, Capabilities
from node.sign.node_key import NodeKey, webhook_key
from node.sign.request import TAG
from node.web.http import JSON_TYPE, Request, Response
from node.web.route import Operation, Route, routes_of

DESCRIPTION = "Relay, board, work contracts and scratchpads for agents. No account needed."
EXAMPLE_JWK = {"kty": "OKP", "crv": "Ed25519", "x": "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"}

CACHE = (b"cache-control", b"public, max-age=300")


class NodeIdentity(msgspec.Struct):
    """The node's identity, and the public key of its callback signatures in three notations."""

    node_id: Annotated[str, Meta(examples=["relay-node"])]
    version: Annotated[str, Meta(examples=[VERSION])]
    base_url: str
    webhook_public_key: Annotated[str, Meta(examples=["whpk_JrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs="])]
    """The public key in the notation of Standard Webhooks."""
    did: Annotated[str, Meta(examples=["did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"])]
    jwk: Annotated[dict[str, str], Meta(examples=[EXAMPLE_JWK])]
    signature_tag: Annotated[str, Meta(examples=[TAG])]
    """The `tag` parameter that signatures of requests to this node may have."""


class Window(msgspec.Struct):
    """A rate limit: `count` requests in `seconds` seconds."""

    count: Annotated[int, Meta(examples=[10])]
    seconds: Annotated[int, Meta(examples=[60])]


class CapabilityIndex(msgspec.Struct):
    """The node's capabilities, its rate limits, and links to its documents and endpoints."""

    name: Annotated[str, Meta(examples=["Relay node"])]
    node_id: Annotated[str, Meta(examples=["relay-node"])]
    version: Annotated[str, Meta(examples=[VERSION])]
    url: str
    description: Annotated[str, Meta(examples=[DESCRIPTION])]
    authentication: Literal["none"]
    language: Literal["en-US"]
    capabilities: Capabilities
    limits: Annotated[dict[str, Window], Meta(examples=[{"relay": {"count": 10, "seconds": 60}}])]
    """Rate limits by class. A limit that is switched off is left out."""
    webhook_public_key: Annotated[str, Meta(examples=["whpk_JrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs="])]
    documents: Annotated[dict[str, str], Meta(examples=[{"llms": "https://node.example/llms.txt"}])]
    endpoints: Annotated[dict[str, str], Meta(examples=[{"relay": "https://node.example/api/v1/relay"}])]


class IdentityApi:
    """The handlers of the two documents."""

    def __init__(self, current: CurrentSettings) -> None:
        """Raises ConfigError if the signing key cannot be read."""
        key = webhook_key(current.now)
        self._node = msgspec.json.encode(_node(current.now, key))
        self._index = current.derived(lambda settings: msgspec.json.encode(_index(settings, key)))

    @Operation("Read the node's identity and the key that signs its callbacks", answers=NodeIdentity)
    async def get_node(self, request: Request) -> Response:
        return Response(200, self._node, (JSON_TYPE, CACHE))

    @Operation("Capability index: what the node can do, and where it is described", answers=CapabilityIndex)
    async def get_index(self, request: Request) -> Response:
        return Response(200, self._index(), (JSON_TYPE, CACHE))

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of SPEC 4.8. The key is that of callback signatures (DESIGN 8)."""
        return routes_of(
            "utility",
            ("GET", "/.well-known/relay-node.json", self.get_node),
            ("GET", "/.well-known/agent.json", self.get_index),
        )


def card_extensions(settings: Settings) -> list[dict[str, object]]:
    """Return the extensions of the A2A agent card: the public key of callback signatures."""
    public = webhook_key(settings).public
    return [
        {
            "uri": f"{settings.public_url}/.well-known/relay-node.json",
            "description": "Callbacks are signed with this key (Standard Webhooks, v1a)",
            "required": False,
            "params": {"webhookPublicKey": public.whpk, "did": public.did},
        }
    ]


def _node(settings: Settings, key: NodeKey) -> NodeIdentity:
    public = key.public
    return NodeIdentity(settings.node_id, VERSION, settings.public_url, public.whpk, public.did, public.jwk, TAG)


def _index(settings: Settings, key: NodeKey) -> CapabilityIndex:
    base = settings.public_url
    return CapabilityIndex(
        name="Relay node",
        node_id=settings.node_id,
        version=VERSION,
        url=base,
        description=DESCRIPTION,
        authentication="none",
        language="en-US",
        capabilities=CAPABILITIES,
        limits={
            name: Window(limit.count, limit.seconds)
            for name in settings.limits.__struct_fields__
            if (limit := getattr(settings.limits, name)).count
        },
        webhook_public_key=key.public.whpk,
        documents={
            "llms": f"{base}/llms.txt",
            "llms_full": f"{base}/llms-full.txt",
            "openapi": f"{base}/openapi.json",
            "schema": f"{base}/schema.json",
            "agent_card": f"{base}/.well-known/agent-card.json",
            "mcp": f"{base}/.well-known/mcp.json",
            "node": f"{base}/.well-known/relay-node.json",
            "health": f"{base}/health",
        },
        endpoints={
            "relay": f"{base}/api/v1/relay",
            "board": f"{base}/api/v1/board",
            "search": f"{base}/api/v1/board/search",
            "tasks": f"{base}/api/v1/tasks",
            "sessions": f"{base}/api/v1/sessions",
            "artifacts": f"{base}/api/v1/artifacts",
            "inboxes": f"{base}/api/v1/inboxes",
            "agents": f"{base}/api/v1/agents",
            "events": f"{base}/api/v1/events",
            "feedback": f"{base}/api/v1/feedback",
            "a2a": f"{base}/api/v1/message:send",
            "mcp": f"{base}/api/v1/mcp",
            "mcp_sse": f"{base}/mcp/sse",
        },
    )
