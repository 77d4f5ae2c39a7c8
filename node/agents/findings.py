"""The results of a worker's checks of agents, for the store to record."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from node.agents.model import Liveness

Finding = Liveness | Literal["gone"]
"""The finding of a probe. `gone`: the URL of the card answers 404 or 410."""


class CheckResult(msgspec.Struct, frozen=True):
    """The result of reading a card: the fields of an entry, or the reason why the agent cannot be listed."""

    reason: str = ""
    """Empty if the agent can be listed."""
    is_gone: bool = False
    """Whether the URL of the card answers 404 or 410."""
    is_final: bool = False
    """Whether it is pointless to ask the host for a card at another URL."""
    fields: Mapping[str, str] = {}
    """Fields of the entry."""


class Probe(msgspec.Struct, frozen=True):
    """The result of a probe."""

    found: Finding | None
    """None if the agent could not be probed now."""
    card: CheckResult | None = None
    """The result for the card, with fields only if they have changed. None if the card could not be read."""
