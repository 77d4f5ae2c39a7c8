"""What a callback says, and on whose behalf it is sent. Both are determined anew for each attempt.

Most callbacks say what happened to an entity, and go to the URL that the entity keeps. A feature whose callbacks say
more has its own source. The composition root hands these sources over, by type of callback.
"""

from typing import Protocol

import msgspec

from node.callbacks.envelope import Envelope
from node.callbacks.queue import Callback, CallbackMessage, CallbackQueue

ENTITY_PAUSE_MS = 5000
"""Minimum time between two messages about one thread, session or inbox, in milliseconds. Events in the meantime are
merged into one message."""


class PreparedCallback(msgspec.Struct, frozen=True):
    """A callback that is ready to be sent."""

    publisher: str
    """The publisher that gave the URL (`node.callbacks.owners`)."""
    envelope: Envelope
    following: CallbackMessage | None = None
    """The message to enqueue once this one has been delivered."""


class CallbackSource(Protocol):
    """Prepares callbacks of some types."""

    pause_ms: int
    """Minimum time between two messages of one name, in milliseconds."""

    async def prepare(self, callback: Callback, host: str) -> PreparedCallback | None:
        """Return what to send to `host`; None if the callback's subject is gone, or no longer names this receiver.

        Raises StoreUnavailable.
        """
        ...

    async def forget(self, callback: Callback) -> None:
        """Have no more callbacks sent to this receiver, because it has asked for that. Raises StoreUnavailable."""
        ...


class EntitySource:
    """The source of callbacks about threads, contracts, sessions and inboxes."""

    pause_ms = ENTITY_PAUSE_MS

    def __init__(self, queue: CallbackQueue) -> None:
        self._queue = queue

    async def prepare(self, callback: Callback, host: str) -> PreparedCallback | None:
        """See CallbackSource."""
        publisher = await self._queue.publisher(callback)
        if publisher is None:
            return None
        data = callback.data
        if callback.after is not None:  # known only now: newer messages are merged into a waiting one
            data = {**data, "api_url": f"{data['api_url']}?since_seq={callback.after}"}
        return PreparedCallback(publisher, Envelope.of(callback.id, callback.type, callback.at, data, host=host))

    async def forget(self, callback: Callback) -> None:
        """See CallbackSource."""
        await self._queue.forget_target(callback)
