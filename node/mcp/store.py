"""Open SSE streams in Redis: which ones there are, how any process sends to one, and how its calls learn of its end."""

from contextlib import suppress
from typing import cast

import msgspec

from node.store import Listener, Store, StoreUnavailable, keys

STREAM_TTL = 45
"""Seconds until a stream whose process died counts as closed: three keep-alives."""

CLOSED = b""
"""The message that a stream has closed. Being empty, it wakes every listener, whatever that listens for."""

NEVER = b"\n"
"""A prefix that no cancellation has, for calls without an id, such as batches."""


class StreamStore:
    """A stream is open while its key exists; what is published on the channel of the same name goes to it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def keep(self, stream_id: str) -> None:
        """Note that the stream is open for STREAM_TTL seconds more. Raises StoreUnavailable."""
        await self._store.command("SET", keys.mcp_stream(stream_id), "", "EX", STREAM_TTL)

    async def is_open(self, stream_id: str) -> bool:
        """Whether the stream is open. Raises StoreUnavailable."""
        return await self._store.command("EXISTS", keys.mcp_stream(stream_id)) == 1

    async def close(self, stream_id: str) -> None:
        """Note that the stream is closed, and tell the calls that wait. Raises StoreUnavailable."""
        await self._store.command("DEL", keys.mcp_stream(stream_id))
        await self._store.command("SPUBLISH", _ends(stream_id), CLOSED)

    async def cancel(self, stream_id: str, request_id: int | str) -> None:
        """Tell the call of that id, in whatever process it is, that nobody waits for it. Raises StoreUnavailable."""
        await self._store.command("SPUBLISH", _ends(stream_id), _cancellation(request_id))

    async def listen_for_end(self, stream_id: str, request_id: int | str | None) -> Listener:
        """Listen from now on for the end of the stream, and for the cancellation of its call `request_id`, if given."""
        own = NEVER if request_id is None else _cancellation(request_id)
        return await self._store.wakeups.listen(_ends(stream_id), own)

    async def until_over(self, stream_id: str, ends: Listener) -> None:
        """Return when the stream is closed, or when the call that `ends` listens for is cancelled.

        While Redis is out of reach nobody knows whether it is closed, and it counts as open.
        """
        while True:
            with suppress(StoreUnavailable):
                if not await self.is_open(stream_id):
                    return
            if await ends.next(STREAM_TTL):
                return

    async def listen(self, stream_id: str) -> Listener:
        """Listen to what other processes send to the stream from now on."""
        return await self._store.wakeups.listen(keys.mcp_stream(stream_id))

    async def deliver(self, stream_id: str, message: bytes) -> bool:
        """Send an answer to the stream. Returns whether any process listens for it. Raises StoreUnavailable."""
        return cast("int", await self._store.command("SPUBLISH", keys.mcp_stream(stream_id), message)) > 0


def _ends(stream_id: str) -> str:
    """The channel for the end of a stream and of its calls. Answers have another one, whose listeners are counted."""
    return f"{keys.mcp_stream(stream_id)}:closed"


def _cancellation(request_id: int | str) -> bytes:
    """What cancels a call: its id as JSON, so that 5 is not "5", and a line feed, so that 5 is no prefix of 51."""
    return msgspec.json.encode(request_id) + b"\n"
