"""What a worker's checks find out about agents, for the store to record."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from node.agents.model import Liveness

Finding = Liveness | Literal["gone"]
"""What a probe has found. `gone`: the card answers 404 or 410."""


class CheckResult(msgspec.Struct, frozen=True):
    """What was found of a card: an agent, or why there is none."""

    reason: str = ""
    """Empty if there is one."""
    is_gone: bool = False
    """Whether its card answers 404 or 410."""
    is_final: bool = False
    """Whether there is no point in asking the host for a card at another URL."""
    fields: Mapping[str, str] = {}
    """Of the entry."""


class Probe(msgspec.Struct, frozen=True):
    """What a probe has found."""

    found: Finding | None
    """None if the agent could not be probed now."""
    card: CheckResult | None = None
    """What became of the card; its fields if they have changed. None if it could not be read."""
