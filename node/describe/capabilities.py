"""What a node can do, for health (SPEC 2.8) and for the index (SPEC 4.8)."""

import msgspec


class Capabilities(msgspec.Struct):
    """Flags that an agent can act on."""

    relay: bool
    board: bool
    search: bool
    tasks: bool
    sessions: bool
    artifacts: bool
    callbacks: bool
    signatures: bool
    a2a: bool
    mcp: bool
    streaming: bool
    push_notifications: bool
