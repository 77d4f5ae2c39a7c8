"""Refusals with a reason that the A2A protocol defines; `errors` converts them into responses."""

from node.common.refusal import Refused


class A2AError(Refused):
    """A refusal with a `reason` of the A2A protocol."""

    def __init__(self, reason: str, message: str, **metadata: str) -> None:
        super().__init__("request.protocol")  # metrics count all refusals in A2A's or MCP's terms under this code
        self.reason = reason
        self.message = message
        self.metadata = metadata


def no_streams() -> A2AError:
    """Return the refusal of message:stream and :subscribe by an agent that does not stream."""
    return A2AError(
        "UNSUPPORTED_OPERATION", "Streaming is not supported by this agent (capabilities.streaming is false)"
    )


def no_extended_card() -> A2AError:
    """Return the refusal of a request for an extended card."""
    why = "There is no extended agent card (capabilities.extendedAgentCard is false)"
    return A2AError("UNSUPPORTED_OPERATION", why)
