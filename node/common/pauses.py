"""Lets a request release its turn while it waits for a change.

Code that waits (`long_poll`, claim-next, pages of events) does not know which request it works for, so it finds the
request's `RequestTurn.pause` (`node.web.turn`) in a context variable. Only the waits are exempt from the client's turn;
the reads before, between and after them are not. A task that several requests share must not pause: that would pause
the request that happened to start it.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar

Pause = Callable[[], AbstractAsyncContextManager[None]]

PAUSE: ContextVar[Pause] = ContextVar("pause", default=nullcontext)
"""Returns a context manager in which the present request pauses; by default one that does nothing."""


def paused() -> AbstractAsyncContextManager[None]:
    """Return a context manager for a block that only waits."""
    return PAUSE.get()()
