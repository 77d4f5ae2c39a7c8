"""The counters of this process since its start: plain integers, since every acknowledgement updates some.

`node.observe.metrics.meter` publishes the counts once a second. No name in them comes from a client, except the
addresses in REFUSED_CLIENTS, which no metric shows.
"""

from bisect import bisect_left
from collections import Counter

from node.config import Limits

BOUNDS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.05, 0.1, 0.25, 1.0)
"""Upper bounds of the histogram's buckets, in seconds. They are close together below the target of 20 ms."""

CLIENT_GONE = 499
"""Status that is counted for a request whose client has disconnected; nginx logs the same number."""


class AnswerCounts:
    """Counts of the answers of one operation."""

    __slots__ = ("buckets", "classes", "seconds")

    def __init__(self) -> None:
        self.classes = [0] * 6
        """Number of answers, by the first digit of the status."""
        self.buckets = [0] * (len(BOUNDS) + 1)
        """Number of successful answers, by duration. The last bucket is above all bounds."""
        self.seconds = 0.0
        """Total duration of the successful answers."""

    def add(self, status: int, seconds: float | None = None) -> None:
        """Count an answer that took `seconds`; None leaves it out of the histogram."""
        self.classes[status // 100] += 1
        if seconds is not None and status < 300:
            self.buckets[bisect_left(BOUNDS, seconds)] += 1
            self.seconds += seconds


UNROUTED = AnswerCounts()
"""Answers to requests that reached no operation: unknown paths and methods, preflights, blocked clients."""

MOUNTED = AnswerCounts()
"""Answers of the embedded blob store."""

VERDICTS = [0, 0]
"""Verdicts of the English gate: the number of texts refused, and of texts passed."""

REFUSALS: Counter[str] = Counter()
"""Requests that were refused or failed, by error code."""

REFUSED_CLIENTS: dict[str, int] = {}
"""Requests that were refused or failed, by client, since the last report (`node.web.activity`)."""

MAX_REFUSED_CLIENTS = 10_000
"""Most clients in REFUSED_CLIENTS between two reports. Requests of further clients are not counted."""


def count_refused(client: str) -> None:
    """Count a refused request of a client."""
    if client in REFUSED_CLIENTS or len(REFUSED_CLIENTS) < MAX_REFUSED_CLIENTS:
        REFUSED_CLIENTS[client] = REFUSED_CLIENTS.get(client, 0) + 1


RESTARTS: Counter[str] = Counter()
"""Restarts of background tasks after a failure, by name."""

LIMIT_TAKEN: dict[str, int] = dict.fromkeys(Limits.__struct_fields__, 0)
"""Requests counted in a limit, by class of the limit."""

LIMIT_REFUSED: dict[str, int] = dict.fromkeys(Limits.__struct_fields__, 0)
"""Requests refused by a limit, by class of the limit."""

ARTIFACTS: dict[str, int] = dict.fromkeys(("registered", "verifying", "available", "rejected", "ended"), 0)
"""Artifacts that entered a state, by state."""
