"""Cohort scheduling: requests that begin together take each stage of their way together.

A request runs through more code and data than fits into the first caches of a processor. If each of 32 requests ran
from its beginning to its call to Redis at once, each would load all of that again. So at the end of a stage a request
lets the others of its cohort finish the same stage (Larus and Parkes, "Using Cohort Scheduling to Enhance Server
Performance", USENIX 2002). bench/findings.md has the figures.
"""

from collections.abc import Generator
from types import coroutine

STAGES = 4
"""Most stages of one operation. A batch of MCP has those of each of its calls."""

MIN_COHORT = 4
"""Fewest requests that wait for each other. Fewer would save little, and each stage costs a pass of the event loop."""


class Cohort:
    """The requests that began in the latest turn of the event loop."""

    __slots__ = ("in_step",)

    def __init__(self) -> None:
        self.in_step = False
        """Whether they wait for each other after each stage."""

    def begin(self, size: int) -> None:
        """Replace the cohort by a new one of `size` requests."""
        self.in_step = size >= MIN_COHORT


COHORT = Cohort()
"""The latest cohort of this process."""


@coroutine
def next_stage() -> Generator[None]:
    """Let the other requests of the cohort finish the same stage; return at once if they do not wait for each other."""
    if COHORT.in_step:
        yield
