"""Admission control: how many requests a web process works on at once when more come than it can serve.

A process that takes everything serves everything late: with 2,000 clients at twice what it can do, each
waits seconds. So the time that a request needs at present is watched, and while it stays too long only
as many requests are worked on as get through in time; the others are refused at once (`node.overload.intake`),
which costs a small part of an answer.

This is CoDel's question (RFC 8289: has the delay been above the target for a whole interval? A burst
that drains by itself is let through) and the answer of a concurrency limit that follows the delay (the
gradient of Netflix' concurrency-limits). No clock and no I/O in here: `look` is told what was seen.
"""

import structlog

log = structlog.get_logger()

TARGET = 0.02
"""Seconds that a request may take through the node. The 99th percentile takes twice as long, and stays under 50 ms."""
INTERVAL = 0.1
"""Seconds that the delay must stay above the target to count as overload."""
DRAINED = 0.9
"""A queue that has shrunk to this share of its peak is on its way out: the interval begins anew."""
CROWD = 128
"""Requests that are no overload however slow it goes: a stalled disk or Redis must not turn a few clients away."""
LEAST = 32
"""Requests that are worked on at once at least: fewer would leave the process idle between two replies of Redis."""
QUIET = 0.3
"""Seconds without a refusal after which the overload is over."""
STEEPEST, GROWTH = 0.5, 1.1
"""How far the limit goes down, and up, from one look to the next."""
PATIENCE = 0.02
"""Seconds that a request may wait for its turn. When one of a crowd has waited longer, the newest are served first; in
overload those that have are refused, since their answer would come late and others are turned away for it."""


class Admission:
    """The limit of one process. `look` belongs to the event loop; the intake's thread reads `limit`."""

    __slots__ = (
        "_above",
        "_early_before",
        "_last_refusal",
        "_peak",
        "_refused_before",
        "_seen",
        "limit",
        "refused_early",
        "refused_late",
    )

    def __init__(self) -> None:
        self.limit: int | None = None
        """Requests worked on at once beyond which one more is refused; None while there is no overload."""
        self.refused_early = 0
        """Refused on arrival; counted by the intake's thread alone, so that no count is lost."""
        self.refused_late = 0
        """Refused after they had waited; counted by the event loop alone."""
        self._above: float | None = None
        self._peak = 0
        self._seen = 0
        self._refused_before = 0
        self._early_before = 0
        self._last_refusal = 0.0

    @property
    def refused(self) -> int:
        """Requests refused since the process started."""
        return self.refused_early + self.refused_late

    @property
    def impatient(self) -> bool:
        """Whether requests are turned away at the moment, so that those that waited too long may be, too."""
        return self.limit is not None and self.refused_early > self._early_before

    def look(self, now: float, delay: float, working: int) -> None:
        """Take note that a request needs `delay` seconds at present, with `working` under way (monotonic `now`)."""
        if self.limit is None:
            self._look_calmly(now, delay, working)
        else:
            self._adjust(self.limit, now, delay)

    def _look_calmly(self, now: float, delay: float, working: int) -> None:
        if delay <= TARGET:
            self._above = None
            return
        if self._above is None or working < DRAINED * self._peak:
            self._above, self._peak = now, working
        self._peak = max(self._peak, working)
        if now - self._above >= INTERVAL and working > CROWD:
            # Little's law: the number that is under way when each takes the target's time.
            self.limit = max(LEAST, round(working * TARGET / delay))
            self._seen = self._refused_before = self.refused
            self._early_before = self.refused_early
            self._last_refusal = now
            log.warning("overload: refusing requests", working=working, delay_ms=round(delay * 1000), limit=self.limit)

    def _adjust(self, limit: int, now: float, delay: float) -> None:
        refused = self.refused > self._seen
        self._seen = self.refused
        if refused:
            self._last_refusal = now
        elif now - self._last_refusal >= QUIET:
            self.limit = self._above = None
            log.warning("overload over", refused=self.refused - self._refused_before)
            return
        if delay > TARGET:
            self.limit = max(LEAST, round(limit * max(STEEPEST, TARGET / delay)))
        else:
            self.limit = round(limit * GROWTH) + 1
