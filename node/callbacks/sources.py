"""What a callback says, and for whom: asked anew for each attempt, so that it is up to date.

Most callbacks name what happened to an entity, and go to the URL that the entity keeps. A feature whose callbacks say
more has a source of its own, which the composition root hands over, by their types.
"""

from typing import Protocol

import msgspec

from node.callbacks.envelope import Envelope
from node.callbacks.queue import Callback, CallbackMessage, CallbackQueue

ENTITY_PAUSE_MS = 5000
"""Time between two messages about one thread, session or inbox. What happens meanwhile goes into one message."""


class PreparedCallback(msgspec.Struct, frozen=True):
    """A callback that is ready to be sent."""

    publisher: str
    """Who gave the URL (`node.callbacks.owners`)."""
    envelope: Envelope
    following: CallbackMessage | None = None
    """The message to send once this one has arrived."""


class CallbackSource(Protocol):
    """Prepares callbacks of some types."""

    pause_ms: int
    """Time between two messages of one name."""

    async def prepare(self, callback: Callback, host: str) -> PreparedCallback | None:
        """What to send to `host`; None if what it tells of is gone, or no longer names that receiver.

        Raises StoreUnavailable.
        """
        ...

    async def forget(self, callback: Callback) -> None:
        """Send that receiver nothing more, because it has asked for that. Raises StoreUnavailable."""
        ...


class EntitySource:
    """The source of what happened to threads, contracts, sessions and inboxes."""

    pause_ms = ENTITY_PAUSE_MS

    def __init__(self, queue: CallbackQueue) -> None:
        self._queue = queue

    async def prepare(self, callback: Callback, host: str) -> PreparedCallback | None:
        """See CallbackSource."""
        publisher = await self._queue.publisher(callback)
        if publisher is None:
            return None
        data = callback.data
        if callback.after is not None:  # known only now: while a message waits, newer ones are merged into it
            data = {**data, "api_url": f"{data['api_url']}?since_seq={callback.after}"}
        return PreparedCallback(publisher, Envelope.of(callback.id, callback.type, callback.at, data, host=host))

    async def forget(self, callback: Callback) -> None:
        """See CallbackSource."""
        await self._queue.forget_target(callback)
