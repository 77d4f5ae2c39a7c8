"""Admission control: how many requests a web process works on at a time when more arrive than it can answer.

A process that takes every request answers every request late: with 2,000 clients and twice the load that it can serve,
each client waits for seconds. So the process measures how long a request currently takes. While that stays too long,
the process works only on as many requests as it can answer in time, and refuses the others at once
(`node.overload.intake`). A refusal costs a small fraction of an answer.

Overload is detected as in CoDel (RFC 8289): the delay has been above a target for a whole interval. A burst that drains
by itself is not overload. During overload, the limit follows the delay, as in Netflix's concurrency-limits. This module
has neither a clock nor I/O: `observe` is given the measurements.
"""

import structlog

log = structlog.get_logger()

OVERLOAD_SECONDS = 0.02
"""Delay of a request through the node that is a sign of overload if it is exceeded for a whole interval."""
TARGET_SECONDS = 0.014
"""Target delay during overload. The 99th percentile is two to three times that, and should stay below 50 ms. The target
is shorter than OVERLOAD_SECONDS so that a slow disk alone is not mistaken for overload so soon."""
INTERVAL_SECONDS = 0.1
"""How long the delay must stay above OVERLOAD_SECONDS to count as overload."""
DRAINING_SHARE = 0.9
"""A queue that has shrunk to this share of its peak is draining, and the interval begins anew."""
MAX_NORMAL_REQUESTS = 128
"""Up to this many requests at a time are never overload, however slow they are. Otherwise a stalled disk or Redis would
cause a few clients to be refused."""
MIN_LIMIT = 32
"""Lowest limit of requests at a time. With fewer, the process would be idle between two replies of Redis."""
QUIET_SECONDS = 0.3
"""The overload is over once no request has been refused for this long."""
MAX_DECREASE, MAX_INCREASE = 0.5, 1.1
"""Factors by which the limit may change from one observation to the next."""
MAX_QUEUE_SECONDS = 0.014
"""Longest time that a request should wait before it begins. If more than MAX_NORMAL_REQUESTS are under way and one has
waited longer, the newest begin first. During overload, requests that have waited longer are refused: their answers
would be late anyway."""


class Admission:
    """The limit of one process. The event loop calls `observe`; Granian's thread reads `limit`."""

    __slots__ = (
        "_above_since",
        "_last_refusal",
        "_peak",
        "_refused_at_last_observation",
        "_refused_before",
        "_refused_early_before",
        "limit",
        "refused_early",
        "refused_late",
    )

    def __init__(self) -> None:
        self.limit: int | None = None
        """Number of requests at a time at which the next one is refused; None without overload."""
        self.refused_early = 0
        """Requests refused on arrival. Only Granian's thread writes this count, so no increment is lost."""
        self.refused_late = 0
        """Requests refused after they had waited. Only the event loop writes this count."""
        self._above_since: float | None = None
        """Since when the delay has been above OVERLOAD_SECONDS (monotonic seconds); None if it is not."""
        self._peak = 0
        """Most requests under way since then."""
        self._refused_at_last_observation = 0
        self._refused_before = 0
        """Requests refused before the current overload began."""
        self._refused_early_before = 0
        self._last_refusal = 0.0

    @property
    def refused(self) -> int:
        """Requests refused since the process started."""
        return self.refused_early + self.refused_late

    @property
    def is_refusing(self) -> bool:
        """Whether requests have been refused on arrival during the current overload."""
        return self.limit is not None and self.refused_early > self._refused_early_before

    def observe(self, now: float, delay: float, working: int) -> None:
        """Adapt the limit. `now`: monotonic seconds. `delay`: seconds that a request takes. `working`: as in
        `Intake.working`."""
        if self.limit is None:
            self._detect(now, delay, working)
        else:
            self._adjust(self.limit, now, delay)

    def _detect(self, now: float, delay: float, working: int) -> None:
        if delay <= OVERLOAD_SECONDS:
            self._above_since = None
            return
        if self._above_since is None or working < DRAINING_SHARE * self._peak:
            self._above_since, self._peak = now, working
        self._peak = max(self._peak, working)
        if now - self._above_since >= INTERVAL_SECONDS and working > MAX_NORMAL_REQUESTS:
            # Little's law: this many are under way when each takes the target time.
            self.limit = max(MIN_LIMIT, round(working * TARGET_SECONDS / delay))
            self._refused_before = self.refused
            self._refused_early_before = self.refused_early
            self._last_refusal = now
            log.warning("overload: refusing requests", working=working, delay_ms=round(delay * 1000), limit=self.limit)

    def _adjust(self, limit: int, now: float, delay: float) -> None:
        has_refused = self.refused > self._refused_at_last_observation
        self._refused_at_last_observation = self.refused
        if has_refused:
            self._last_refusal = now
        elif now - self._last_refusal >= QUIET_SECONDS:
            self.limit = self._above_since = None
            log.warning("overload over", refused=self.refused - self._refused_before)
            return
        if delay > TARGET_SECONDS:
            self.limit = max(MIN_LIMIT, round(limit * max(MAX_DECREASE, TARGET_SECONDS / delay)))
        else:
            self.limit = round(limit * MAX_INCREASE) + 1
