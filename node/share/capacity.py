"""Keeps which kinds of requests the node refuses now, because it is short of memory or has reached its totals.

`node.observe.memory` updates this on a timer, so a request costs only a look-up in a mapping that is usually empty.
"""

import math
from collections.abc import Mapping, Set

from node.common.refusal import Refused
from node.share.cost import Kind

RETRY_AFTER = 30.0
"""Seconds after which a refused client may try again. Memory does not become free at once."""


def share_of(most: int, taken: float) -> int:
    """Return how many things of a total one client may have now. `taken`: the share of the total that is taken.

    The client's quota is `most` while at least half of the total is free. After that it shrinks faster than the free
    part, down to one. Otherwise a few hundred clients could take the whole total and leave nothing for others.
    """
    free = max(0.0, 2 * (1 - taken))
    return max(min(most, 1), math.ceil(most * free**2)) if free < 1 else most


class Capacity:
    """The kinds that one process refuses now, and the bytes that one client may have."""

    def __init__(self, allowance: int = 0) -> None:
        self.refused: Mapping[Kind, str] = {}
        """The refused kinds, each with the code of its refusal (one of them, if there are several); usually empty."""
        self.short: Set[str] = frozenset()
        """The resources that the node is short of: `memory.low`, `disk.low`."""
        self.allowance = allowance
        """Most bytes that the node keeps for one client in 24 hours; 0 for any number."""
        self.taken: Mapping[Kind, float] = {}
        """The share of the node's total that is taken, by kind, for kinds that have a total."""

    def quota(self, kind: Kind, most: int, taken: float) -> int:
        """Return how many things of a kind one client may have now. `most` is its full quota, 0 for any number.

        `taken`: the share of this process' own total that is taken, if it has one.
        """
        return share_of(most, max(taken, self.taken.get(kind, 0.0)))

    def admit(self, kind: Kind) -> None:
        """Raise Refused `memory.low`, `disk.low` or `node.full` if the kind is refused now."""
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
