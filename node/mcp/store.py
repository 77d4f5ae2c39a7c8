"""Open SSE streams in Redis: which ones there are, and how any process sends to each of them."""

from contextlib import suppress
from typing import cast

from node.store import Listener, Store, StoreUnavailable, keys

STREAM_TTL = 45
"""Seconds until a stream whose process died counts as closed: three keep-alives."""


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
        """Note that the stream is closed, and tell whoever waits for that. Raises StoreUnavailable."""
        await self._store.command("DEL", keys.mcp_stream(stream_id))
        await self._store.command("SPUBLISH", _closing(stream_id), "closed")

    async def until_closed(self, stream_id: str) -> None:
        """Return when the stream is closed. While Redis is out of reach nobody knows, and it counts as open."""
        with await self._store.wakeups.listen(_closing(stream_id)) as listener:
            while True:
                with suppress(StoreUnavailable):
                    if not await self.is_open(stream_id):
                        return
                await listener.next(STREAM_TTL)

    async def listen(self, stream_id: str) -> Listener:
        """Listen to what other processes send to the stream from now on."""
        return await self._store.wakeups.listen(keys.mcp_stream(stream_id))

    async def deliver(self, stream_id: str, message: bytes) -> bool:
        """Send an answer to the stream. Returns whether any process listens for it. Raises StoreUnavailable."""
        return cast("int", await self._store.command("SPUBLISH", keys.mcp_stream(stream_id), message)) > 0


def _closing(stream_id: str) -> str:
    """The channel on which the end of a stream is told: not that of its answers, whose listeners are counted."""
    return f"{keys.mcp_stream(stream_id)}:closed"
