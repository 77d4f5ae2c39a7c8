"""What a request gives back while it waits for a change, and takes again before it goes on.

Whoever waits does not know the request that it waits for: `while_waiting` of `node.web.http` says what its pauses are,
and the few places that wait mark them (`long_poll`, claim-next, pages of events). Only these pauses cost nothing, so a
`wait=` does not get the reads before, between and after them done beside the turn of their client. A task that several
requests share must not pause: it would be for the request that happened to begin it.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar

Pause = Callable[[], AbstractAsyncContextManager[None]]

PAUSE: ContextVar[Pause] = ContextVar("pause", default=nullcontext)
"""How the work that runs pauses; by default it has nothing to give back."""


def paused() -> AbstractAsyncContextManager[None]:
    """For a block that does nothing but wait."""
    return PAUSE.get()()
