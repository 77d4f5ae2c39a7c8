"""What a node takes on at the moment: nothing new that stays, while memory or its totals say so.

A web process learns it by a timer (`node.observe.memory`), so a request costs a look at an empty mapping.
"""

from collections.abc import Mapping

from node.common.refusal import Refused
from node.share.cost import Kind

RETRY_AFTER = 30.0
"""Seconds after which a refused client may try again: what was full does not empty at once."""


class Capacity:
    """What one process refuses, and how much of what is left one client may have."""

    def __init__(self, allowance: int = 0) -> None:
        self.refused: Mapping[Kind, str] = {}
        """By the code of the catalogue; empty most of the time."""
        self.allowance = allowance
        """Bytes that one client may have kept in 24 hours; 0 is any number."""

    def admit(self, kind: Kind) -> None:
        """Raises Refused `memory.low`, `node.full`."""
        if self.refused and (code := self.refused.get(kind)):
            raise Refused(code, retry_after=RETRY_AFTER, what=kind)

    @property
    def is_low(self) -> bool:
        """Whether memory is short."""
        return "memory.low" in self.refused.values()
