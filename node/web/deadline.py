"""Deadlines of all bodies that a process is reading, checked by one timer.

`asyncio.timeout` would create a timer for each wait, which costs as much as decoding a body. Nearly all bodies arrive
immediately, so a periodic check of the waits under way is enough.
"""

import asyncio
from collections.abc import Awaitable
from time import monotonic
from typing import Any, TypeVar, cast

T = TypeVar("T")

CHECK_SECONDS = 0.25
"""Interval between two checks, and so the longest delay with which a missed deadline is noticed. If a check itself is
late by more than this, the process or its machine stood still. Data that arrived during that time has not been read
yet, so all deadlines move by the same delay."""

MIN_ENDED = 8
"""Most overdue waits that one check ends, unless one in ENDED_SHARE of all overdue waits is more. When thousands of
clients stall at the same time, the answers to them must not delay those to other clients."""
ENDED_SHARE = 200
NEXT_CHECK_SECONDS = 0.005
"""Time until the next check if more waits are overdue."""


class Deadlines:
    """The waits of one event loop that have a deadline."""

    def __init__(self) -> None:
        self._deadlines: dict[asyncio.Task[Any], float] = {}
        self._cancelled: set[asyncio.Task[Any]] = set()
        """Tasks that were cancelled because their wait was overdue."""
        self._check_is_due = False
        self._check_at = 0.0
        """When the next check is due (monotonic seconds)."""

    async def by(self, deadline: float, awaitable: Awaitable[T]) -> T:
        """Return the result of `awaitable`. Raises TimeoutError if it does not come by `deadline` (monotonic seconds).

        A task can have only one such wait at a time.
        """
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._deadlines[task] = deadline
        if not self._check_is_due:  # never checked here: a task that cancels itself is cancelled wherever it waits next
            self._check_in(CHECK_SECONDS)
        try:
            return await awaitable
        except asyncio.CancelledError:
            if task not in self._cancelled or task.cancelling() > 1:  # something else has cancelled it, too
                raise
            raise TimeoutError from None
        finally:
            del self._deadlines[task]
            if task in self._cancelled:  # even if the wait ended by itself
                self._cancelled.remove(task)
                task.uncancel()

    def _check(self) -> None:
        now = monotonic()
        if (late := now - self._check_at) > CHECK_SECONDS:
            self._deadlines = {task: due + late for task, due in self._deadlines.items()}
        overdue = [task for task, due in self._deadlines.items() if due <= now and task not in self._cancelled]
        ending = overdue[: max(MIN_ENDED, len(overdue) // ENDED_SHARE)]
        for task in ending:
            self._cancelled.add(task)
            task.cancel()
        self._check_is_due = False
        if self._deadlines:
            self._check_in(CHECK_SECONDS if ending == overdue else NEXT_CHECK_SECONDS)

    def _check_in(self, seconds: float) -> None:
        self._check_is_due = True
        self._check_at = monotonic() + seconds
        asyncio.get_running_loop().call_later(seconds, self._check)
