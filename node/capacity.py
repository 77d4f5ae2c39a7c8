"""What a node takes on at the moment: nothing new that stays, while memory or its totals say so.

A web process learns it by a timer (`node.ops.memory`), so a request costs a look at an empty mapping.
Steps on what is there already are never refused here: claims, completions, replies, session lines.
"""

from collections.abc import Mapping
from typing import Literal

from node.refusal import Refused

Kind = Literal["session", "thread", "task", "message"]
"""What can be refused: `message` are those kept off the board, of the relay and of A2A."""

RETRY_AFTER = 30.0
"""Seconds after which a refused client may try again: what was full does not empty at once."""


class Capacity:
    """What one process refuses."""

    def __init__(self) -> None:
        self.refused: Mapping[Kind, str] = {}
        """By the code of the catalogue; empty most of the time."""

    def admit(self, kind: Kind) -> None:
        """Raises Refused `memory.low`, `node.full`."""
        if self.refused and (code := self.refused.get(kind)):
            raise Refused(code, retry_after=RETRY_AFTER, what=kind)

    @property
    def is_low(self) -> bool:
        """Whether memory is short."""
        return "memory.low" in self.refused.values()
