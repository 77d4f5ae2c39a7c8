"""How the tests of the client start their node."""

from tests.support.limits import NO_LIMITS_GIVEN
from tests.support.nodes import NodeProcess

SETTINGS = {
    **NO_LIMITS_GIVEN,
    "RELAY_LIMIT_FEEDBACK": "10/1",  # the one limit that a test has to reach
    "RELAY_WORKERS": "1",
    "RELAY_CALLBACK_ALLOW_PRIVATE": "true",
}


def begin(node: NodeProcess) -> NodeProcess:
    """Start the node without waiting. All other limits are off, because all clients of a test share one address."""
    return node.start(**SETTINGS)
