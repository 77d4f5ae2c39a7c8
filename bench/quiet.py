"""Measures how quiet the machine is: a scenario begins on a quiet machine, and its figures say what disturbed each run.

Two things disturb a run: other work on these cores or on the host (stolen time), and a CPU clock that has become
slower. /proc/stat shows the first; timing the same piece of work again and again shows the second.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

BUSY = 0.1
"""Share of all cores; while more than this is busy, the machine is not quiet."""

QUIET_SECONDS = 3
"""Consecutive quiet seconds that are needed before a scenario begins."""

MOST_SECONDS = 900
"""Longest wait for a quiet machine. After it the scenario is measured anyway, and its rows say what disturbed them."""

LOOPS = 20_000
"""Loops in the piece of work that is timed: about a millisecond."""

TRIES = 10
"""Number of timings. The fastest counts, as the others may have been interrupted."""


class CoreTimes(NamedTuple):
    """Ticks of all cores since the machine started."""

    total: int
    idle: int
    stolen: int
    """Used by other guests of the host."""

    @classmethod
    def now(cls) -> "CoreTimes":
        _, *ticks = Path("/proc/stat").read_text().partition("\n")[0].split()
        user, nice, system, idle, waiting, irq, soft, stolen = map(int, ticks[:8])
        return cls(user + nice + system + idle + waiting + irq + soft + stolen, idle + waiting, stolen)

    def busy_since(self, before: "CoreTimes") -> float:
        """Share of all cores that was not idle, including stolen time."""
        return 1 - (self.idle - before.idle) / max(1, self.total - before.total)

    def stolen_since(self, before: "CoreTimes") -> float:
        """Share of all cores that other guests of the host used."""
        return (self.stolen - before.stolen) / max(1, self.total - before.total)


def speed() -> float:
    """Measure how fast a core is now, in loops of the same piece of work per second."""
    return max(_timed() for _ in range(TRIES))


def _timed() -> float:
    began = time.perf_counter()
    total = 0
    for number in range(LOOPS):
        total += number & 7
    return LOOPS / (time.perf_counter() - began)


async def quiet(say: Callable[[str], None], most_seconds: float = MOST_SECONDS) -> float:
    """Wait until nothing else uses this machine, for at most `most_seconds`. Return the seconds waited."""
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
