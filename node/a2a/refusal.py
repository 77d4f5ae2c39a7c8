"""How the A2A service says no where the protocol has a name of its own for it. `errors` makes responses of it."""

from node.common.refusal import Refused


class A2AError(Refused):
    """A refusal that the protocol names by its `reason`."""

    def __init__(self, reason: str, message: str, **metadata: str) -> None:
        super().__init__("request.protocol")  # what all refusals that a protocol names are counted under
        self.reason = reason
        self.message = message
        self.metadata = metadata


def no_streams() -> A2AError:
    """What message:stream and :subscribe end in where nothing is streamed."""
    return A2AError(
        "UNSUPPORTED_OPERATION", "Streaming is not supported by this agent (capabilities.streaming is false)"
    )


def no_extended_card() -> A2AError:
    """What asking for an extended card ends in."""
    why = "There is no extended agent card (capabilities.extendedAgentCard is false)"
    return A2AError("UNSUPPORTED_OPERATION", why)
