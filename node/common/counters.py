"""What this process has counted since it began: plain integers, because the acknowledgement path counts here.

Nothing here is shared or written anywhere: `node.observe.metrics.meter` does that once a second. What is counted
has a name that the program knows beforehand; what clients sent is none.
"""

from bisect import bisect_left
from collections import Counter

from node.config import Limits

BOUNDS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.05, 0.1, 0.25, 1.0)
"""Seconds: upper bounds of the histogram's buckets, close together below the promised 20 ms."""

CLIENT_GONE = 499
"""The status of a request whose client went away; the number is the custom of access logs."""


class Calls:
    """The answers of one operation."""

    __slots__ = ("buckets", "classes", "seconds")

    def __init__(self) -> None:
        self.classes = [0] * 6
        """Answers by the first digit of their status."""
        self.buckets = [0] * (len(BOUNDS) + 1)
        """Successful ones by how long they took; the last is beyond all bounds."""
        self.seconds = 0.0
        """How long those took together."""

    def add(self, status: int, seconds: float = 0.0) -> None:
        """Count an answer that took so long to make."""
        self.classes[status // 100] += 1
        if status < 300:
            self.buckets[bisect_left(BOUNDS, seconds)] += 1
            self.seconds += seconds


UNROUTED = Calls()
"""Answers to requests for no operation: unknown paths and methods, preflights, blocked clients."""

MOUNTED = Calls()
"""Answers of the embedded blob store."""

VERDICTS = [0, 0]
"""Texts that the English gate judged: refused, passed."""

REFUSALS: Counter[str] = Counter()
"""Operations that were refused or failed, by code of the catalogue."""

RESTARTS: Counter[str] = Counter()
"""Failures of background tasks, by name: each was begun again."""

TAKEN: dict[str, int] = dict.fromkeys(Limits.__struct_fields__, 0)
"""Places taken, by class of limit."""

OVER: dict[str, int] = dict.fromkeys(Limits.__struct_fields__, 0)
"""Requests refused, by class of limit."""

ARTIFACTS: dict[str, int] = dict.fromkeys(("registered", "verifying", "available", "rejected", "ended"), 0)
"""Artifacts that came into a state."""
