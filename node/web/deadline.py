"""Deadlines of the bodies being read: one timer for all of them.

`asyncio.timeout` makes a timer for each wait, which costs as much as decoding the body. Nearly all bodies
are there at once, so a process looks at those under way now and then instead.
"""

import asyncio
from collections.abc import Awaitable
from time import monotonic
from typing import Any, TypeVar, cast

T = TypeVar("T")

LOOK = 0.25
"""Seconds between two looks; one deadline is noticed that much late at most."""

AT_ONCE, SHARE, SOON = 8, 200, 0.005
"""Waits that end in one look, or one in so many of those overdue, and seconds until the next look if more are:
thousands of clients that stall together must not have thousands of answers made before anybody else's."""


class Deadlines:
    """The waits of one event loop that end at a time."""

    def __init__(self) -> None:
        self._due: dict[asyncio.Task[Any], float] = {}
        self._overdue: set[asyncio.Task[Any]] = set()
        self._looking = False

    async def by(self, deadline: float, awaitable: Awaitable[T]) -> T:
        """What `awaitable` gives by `deadline`, a time of `monotonic`. Raises TimeoutError. One at a time in a task."""
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._due[task] = deadline
        if not self._looking:
            self._look()
        try:
            return await awaitable
        except asyncio.CancelledError:
            if task not in self._overdue:
                raise
            self._overdue.remove(task)
            if task.uncancel():
                raise  # somebody else wants it to end, too
            raise TimeoutError from None
        finally:
            del self._due[task]
            self._overdue.discard(task)  # also of one that ended by itself just then

    def _look(self) -> None:
        now = monotonic()
        late = [task for task, deadline in self._due.items() if deadline <= now and task not in self._overdue]
        now_ending = late[: max(AT_ONCE, len(late) // SHARE)]
        for task in now_ending:
            self._overdue.add(task)
            task.cancel()
        self._looking = bool(self._due)
        if self._looking:
            asyncio.get_running_loop().call_later(LOOK if now_ending == late else SOON, self._look)
