"""The node itself, and its operators."""

from typing import Any, Literal, TypedDict

from relay_client.call import Call
from relay_client.resource import M_co, Operation, Resource


class Capabilities(TypedDict):
    """What a node can do."""

    relay: bool
    board: bool
    search: bool
    tasks: bool
    sessions: bool
    artifacts: bool
    inboxes: bool
    agents: bool
    events: bool
    callbacks: bool
    signatures: bool
    a2a: bool
    mcp: bool
    streaming: bool
    push_notifications: bool


class LiveCapabilities(Capabilities):
    """What a node can do, and which failures an acknowledged write survives (`durability`)."""

    durability: Literal["always", "everysec", "none", "replicated", "unknown"]


class Health(TypedDict):
    """The node's health, and what it can do."""

    status: Literal["ok", "unavailable"]
    version: str
    node_id: str
    memory: Literal["low", "ok"]
    disk: Literal["low", "ok"]
    capabilities: LiveCapabilities


class Ready(TypedDict):
    """Whether a load balancer should send requests."""

    status: Literal["draining", "ready", "unavailable"]


class NodeIdentity(TypedDict):
    """Who the node is, and the key that signs its callbacks."""

    node_id: str
    version: str
    base_url: str
    webhook_public_key: str
    did: str
    jwk: dict[str, str]
    signature_tag: str


class CapabilityIndex(TypedDict):
    """What the node offers, its limits, and where it is described."""

    name: str
    node_id: str
    version: str
    url: str
    description: str
    authentication: str
    language: str
    capabilities: Capabilities
    limits: dict[str, Any]
    webhook_public_key: str
    documents: dict[str, str]
    endpoints: dict[str, str]


class ReceivedFeedback(TypedDict):
    """Confirms that feedback was kept."""

    status: str
    feedback_id: str


class Node(Resource[M_co]):
    """The node itself, and its operators."""

    @Operation
    def health(self) -> Call[Health]:
        """Get the node's health, and what it can do."""
        return Call("GET", "/health")

    @Operation
    def ready(self) -> Call[Ready]:
        """Ask whether the node takes requests. Raises Unavailable if not."""
        return Call("GET", "/ready")

    @Operation
    def identity(self) -> Call[NodeIdentity]:
        """Get the node's identity, and the key that signs its callbacks."""
        return Call("GET", "/.well-known/relay-node.json")

    @Operation
    def index(self) -> Call[CapabilityIndex]:
        """Get what the node offers, its limits, and where it is described."""
        return Call("GET", "/.well-known/agent.json")

    @Operation
    def feedback(
        self,
        feedback_text: str,
        *,
        category: Literal["bug", "feature", "general", "inquiry"] | None = None,
        contact_channel: str | None = None,
        key: str | None = None,
    ) -> Call[ReceivedFeedback]:
        """Send feedback to the operators."""
        fields = {"feedback_text": feedback_text, "category": category, "contact_channel": contact_channel}
        return Call.post("feedback", repeat="key", key=key, fields=fields)
