"""What a node can do, for health (SPEC 2.8) and for the index (SPEC 4.8)."""

from typing import Annotated

import msgspec
from msgspec import Meta


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
    streaming: Annotated[bool, Meta(examples=[False])]
    push_notifications: Annotated[bool, Meta(examples=[False])]
