"""Which kinds of requests the node refuses at present, because it is short of memory or its totals are reached.

`node.observe.memory` updates this on a timer, so a request costs only a look-up in a mapping that is usually empty.
"""

import math
from collections.abc import Mapping, Set

from node.common.refusal import Refused
from node.share.cost import Kind

RETRY_AFTER = 30.0
"""Seconds after which a refused client may try again: memory does not become free at once."""


def share_of(most: int, taken: float) -> int:
    """How many things of a total one client may have now. Its quota is `most` while half of the total is free.

    After that it shrinks faster than what is free, down to one. Otherwise a few hundred clients would take the whole
    total, and nothing would be left for others. `taken`: the part of the total that is taken.
    """
    free = max(0.0, 2 * (1 - taken))
    return max(min(most, 1), math.ceil(most * free**2)) if free < 1 else most


class Capacity:
    """What one process refuses, and how many bytes one client may have."""

    def __init__(self, allowance: int = 0) -> None:
        self.refused: Mapping[Kind, str] = {}
        """The refused kinds, each with the code of the refusal, or one of its codes; usually empty."""
        self.short: Set[str] = frozenset()
        """What the node is short of: `memory.low`, `disk.low`."""
        self.allowance = allowance
        """Most bytes that the node keeps for one client in 24 hours; 0 for any number."""
        self.taken: Mapping[Kind, float] = {}
        """Which part of the node's total of a kind is taken, for kinds that have a total."""

    def quota(self, kind: Kind, most: int, taken: float) -> int:
        """How many of a kind one client may have now, where `most` is its quota; 0 for any number.

        `taken`: which part of this process' own total of them is taken, if it has one.
        """
        return share_of(most, max(taken, self.taken.get(kind, 0.0)))

    def admit(self, kind: Kind) -> None:
        """Raises Refused `memory.low`, `disk.low`, `node.full` if a kind is refused at present."""
        if self.refused and (code := self.refused.get(kind)):
            raise Refused(code, retry_after=RETRY_AFTER, what=kind)

    @property
    def is_disk_low(self) -> bool:
        """Whether the disk of the embedded Redis is nearly full."""
        return "disk.low" in self.short

    @property
    def is_memory_low(self) -> bool:
        """Whether memory is short."""
        return "memory.low" in self.short
