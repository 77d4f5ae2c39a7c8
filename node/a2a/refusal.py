"""Refusals for which the A2A protocol has names of its own; `errors` makes responses of them."""

from node.common.refusal import Refused


class A2AError(Refused):
    """A refusal that the protocol names by its `reason`."""

    def __init__(self, reason: str, message: str, **metadata: str) -> None:
        super().__init__("request.protocol")  # the code under which all refusals that a protocol names are counted
        self.reason = reason
        self.message = message
        self.metadata = metadata


def no_streams() -> A2AError:
    """The refusal of message:stream and :subscribe where nothing is streamed."""
    return A2AError(
        "UNSUPPORTED_OPERATION", "Streaming is not supported by this agent (capabilities.streaming is false)"
    )


def no_extended_card() -> A2AError:
    """The refusal of a request for an extended card."""
    why = "There is no extended agent card (capabilities.extendedAgentCard is false)"
    return A2AError("UNSUPPORTED_OPERATION", why)
