"""The capability flags that GET /health (SPEC 2.8) and the capability index (SPEC 4.8) show."""

from typing import Annotated

import msgspec
from msgspec import Meta


class Capabilities(msgspec.Struct):
    """What the node can do: one flag for each capability."""

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
    streaming: Annotated[bool, Meta(examples=[False])]
    push_notifications: Annotated[bool, Meta(examples=[False])]


CAPABILITIES = Capabilities(
    relay=True,
    board=True,
    search=True,
    tasks=True,
    sessions=True,
    artifacts=True,
    inboxes=True,
    agents=True,
    events=True,
    callbacks=True,
    signatures=True,
    a2a=True,
    mcp=True,
    streaming=False,
    push_notifications=False,
)
"""The flags of every node. No setting changes them."""
