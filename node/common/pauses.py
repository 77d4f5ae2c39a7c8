"""What a request gives back while it waits for a change, and takes again before it goes on.

The code that waits does not know its request: `RequestTurn.pause` (`node.web.turn`) says what a pause is, and the few
places that wait mark it (`long_poll`, claim-next, pages of events). Only these pauses are exempt from the client's
turn; the reads before, between and after them are not. A task that several requests share must not pause: that would
be a pause of the request that happened to start it.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar

Pause = Callable[[], AbstractAsyncContextManager[None]]

PAUSE: ContextVar[Pause] = ContextVar("pause", default=nullcontext)
"""How the running request pauses; by default it has nothing to give back."""


def paused() -> AbstractAsyncContextManager[None]:
    """For a block that does nothing but wait."""
    return PAUSE.get()()
