"""The due times of requests, and a timer that wakes the generator in time.

At a constant arrival rate, request `i` is due `i / rate` seconds after the start, whatever happened to
earlier requests. Its latency counts from that moment, not from when it was sent: a server that stalls for
a second is charged for every request that fell due in that second (this avoids coordinated omission).
The event loop's own timers are too coarse for this: they round to whole milliseconds.
"""

import asyncio
import ctypes
import os
from collections.abc import Callable
from time import perf_counter_ns
from types import TracebackType

SECOND = 1_000_000_000
# A wake-up costs the generator about 5 µs. Above 5,000 requests a second, one wake-up sends all that are due.
SHORTEST_TICK_NS = 200_000
LATE_NS = 1_000_000  # a send this far behind its time counts as late

MOST_REQUESTS = 5_000_000  # in one run: 40 MB of samples
MOST_SECONDS = 3600


class Schedule:
    """Due times of `rate * seconds` requests, in nanoseconds since the start.

    Raises ValueError unless `rate` is positive, and `seconds` and the number of requests are within their bounds.
    """

    def __init__(self, rate: float, seconds: float) -> None:
        if not rate > 0 or not 0 < seconds <= MOST_SECONDS or rate * seconds > MOST_REQUESTS:
            raise ValueError(f"{rate}/s for {seconds} s: at most {MOST_REQUESTS:,} requests and {MOST_SECONDS} s")
        self.rate = rate
        self.count = max(1, round(rate * seconds))

    def due(self, index: int) -> int:
        return round(index * SECOND / self.rate)

    def due_by(self, elapsed: int) -> int:
        """Return the number of requests that are due once `elapsed` nanoseconds have passed."""
        index = max(0, min(self.count, int(elapsed * self.rate / SECOND) + 1))
        while index < self.count and self.due(index) <= elapsed:
            index += 1
        while index > 0 and self.due(index - 1) > elapsed:
            index -= 1
        return index

    @property
    def tick(self) -> int:
        """Nanoseconds between two wake-ups of the generator."""
        return max(SHORTEST_TICK_NS, round(SECOND / self.rate))


class _Interval(ctypes.Structure):
    _fields_ = (  # struct itimerspec: the period, then the first expiry
        ("period_s", ctypes.c_long),
        ("period_ns", ctypes.c_long),
        ("first_s", ctypes.c_long),
        ("first_ns", ctypes.c_long),
    )


_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK = os.O_NONBLOCK
_TFD_CLOEXEC = os.O_CLOEXEC
_TFD_TIMER_ABSTIME = 1


class Ticker:
    """Calls `tick` at `first` (on the clock of `now`) and then every `period` nanoseconds, using a Linux timerfd."""

    def __init__(self, first: int, period: int, tick: Callable[[], None]) -> None:
        self._tick = tick
        self._loop = asyncio.get_running_loop()
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC)
        interval = _Interval(*divmod(period, SECOND), *divmod(first, SECOND))
        if self._fd < 0 or libc.timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, ctypes.byref(interval), None) < 0:
            raise OSError(ctypes.get_errno(), "timerfd")

    def __enter__(self) -> "Ticker":
        self._loop.add_reader(self._fd, self._expired)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _expired(self) -> None:
        os.read(self._fd, 8)
        self._tick()


def now() -> int:
    """Return the time of CLOCK_MONOTONIC, the clock of the timer, in nanoseconds."""
    return perf_counter_ns()
