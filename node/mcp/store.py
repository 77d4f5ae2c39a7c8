"""SSE streams in Redis: which are open, how any process sends to one, and how its calls are told that it closed."""

from contextlib import suppress
from typing import cast

import msgspec

from node.store import Listener, Store, StoreUnavailable, keys

STREAM_TTL = 45
"""Time after which a stream whose process died counts as closed, in seconds: three heartbeats."""

CLOSED = b""
"""The message that a stream has closed. An empty message wakes every listener, whatever its prefix."""

NEVER = b"\n"
"""A listener's prefix for calls without an id, such as batches. No cancellation begins with it."""


class StreamStore:
    """The SSE streams. A stream is open while its key exists. Its answers are published on the channel of that name."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def keep(self, stream_id: str) -> None:
        """Keep the stream open for another STREAM_TTL seconds. Raises StoreUnavailable."""
        await self._store.command("SET", keys.mcp_stream(stream_id), "", "EX", STREAM_TTL)

    async def is_open(self, stream_id: str) -> bool:
        """Return whether the stream is open. Raises StoreUnavailable."""
        return await self._store.command("EXISTS", keys.mcp_stream(stream_id)) == 1

    async def close(self, stream_id: str) -> None:
        """Close the stream, and notify its waiting calls. Raises StoreUnavailable."""
        await self._store.command("DEL", keys.mcp_stream(stream_id))
        await self._store.command("SPUBLISH", _ends(stream_id), CLOSED)

    async def cancel(self, stream_id: str, request_id: int | str) -> None:
        """Notify the call with that id, in any process, that its client cancelled it. Raises StoreUnavailable."""
        await self._store.command("SPUBLISH", _ends(stream_id), _cancellation(request_id))

    async def listen_for_end(self, stream_id: str, request_id: int | str | None) -> Listener:
        """Start to listen for the end of the stream and, if given, for the cancellation of its call `request_id`."""
        own = NEVER if request_id is None else _cancellation(request_id)
        return await self._store.wakeups.listen(_ends(stream_id), own)

    async def until_over(self, stream_id: str, ends: Listener) -> None:
        """Return once the stream is closed, or the call that `ends` listens for is cancelled.

        While Redis cannot be reached, the stream counts as open.
        """
        while True:
            with suppress(StoreUnavailable):
                if not await self.is_open(stream_id):
                    return
            if await ends.next(STREAM_TTL):
                return

    async def listen(self, stream_id: str) -> Listener:
        """Start to listen to the answers that all processes send to the stream."""
        return await self._store.wakeups.listen(keys.mcp_stream(stream_id))

    async def deliver(self, stream_id: str, message: bytes) -> bool:
        """Send an answer to the stream. Return whether any process listens to it. Raises StoreUnavailable."""
        return cast("int", await self._store.command("SPUBLISH", keys.mcp_stream(stream_id), message)) > 0


def _ends(stream_id: str) -> str:
    """Return the channel for the end of a stream and for cancellations of its calls.

    Answers have a channel of their own, since `deliver` counts its listeners.
    """
    return f"{keys.mcp_stream(stream_id)}:closed"


def _cancellation(request_id: int | str) -> bytes:
    """Return the message that cancels a call: its id as JSON and a line feed.

    JSON distinguishes 5 from "5"; the line feed keeps 5 from being a prefix of 51.
    """
    return msgspec.json.encode(request_id) + b"\n"
