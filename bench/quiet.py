"""How quiet the machine is: before a scenario it is waited for, and what disturbed a run is told beside its figures.

Two things disturb a run: work of others on these cores or on the host's (stolen time), and a clock that is slower than
it was before. The first is in /proc/stat, the second is seen by timing the same piece of work again and again.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

BUSY = 0.1
"""A share of all cores; with more of them at work for somebody else, the machine is not quiet."""

QUIET_SECONDS = 3
"""One after the other, before a scenario begins."""

MOST_SECONDS = 900
"""That a scenario waits; then it is measured as it is, and its rows say what disturbed them."""

LOOPS = 20_000
"""Of the piece of work that is timed, about a millisecond."""

TRIES = 10
"""Of which the fastest counts: others may have been interrupted."""


class CoreTimes(NamedTuple):
    """Ticks of all cores since the machine started."""

    total: int
    idle: int
    stolen: int
    """By other guests of the host."""

    @classmethod
    def now(cls) -> "CoreTimes":
        _, *ticks = Path("/proc/stat").read_text().partition("\n")[0].split()
        user, nice, system, idle, waiting, irq, soft, stolen = map(int, ticks[:8])
        return cls(user + nice + system + idle + waiting + irq + soft + stolen, idle + waiting, stolen)

    def busy_since(self, before: "CoreTimes") -> float:
        """The share of all cores that was not idle, stolen time included."""
        return 1 - (self.idle - before.idle) / max(1, self.total - before.total)

    def stolen_since(self, before: "CoreTimes") -> float:
        """The share of all cores that other guests had."""
        return (self.stolen - before.stolen) / max(1, self.total - before.total)


def speed() -> float:
    """Loops of the same piece of work in a second: how fast a core is now."""
    return max(_timed() for _ in range(TRIES))


def _timed() -> float:
    began = time.perf_counter()
    total = 0
    for number in range(LOOPS):
        total += number & 7
    return LOOPS / (time.perf_counter() - began)


async def quiet(say: Callable[[str], None], most_seconds: float = MOST_SECONDS) -> float:
    """Wait until nobody else works on this machine. Returns the seconds that it took."""
    began = time.monotonic()
    calm = 0
    told = False
    while calm < QUIET_SECONDS and (waited := time.monotonic() - began) < most_seconds:
        before = CoreTimes.now()
        await asyncio.sleep(1.0)
        now = CoreTimes.now()
        busy = now.busy_since(before)
        calm = calm + 1 if busy <= BUSY else 0
        if not calm and not told:
            say(f"the machine is busy ({busy:.0%} of all cores): waiting for {most_seconds - waited:.0f} s at most")
            told = True
    took = time.monotonic() - began
    if told:
        say(f"waited for {took:.0f} s; the machine is {'quiet' if calm else 'still busy'}")
    return took
