"""Open SSE streams in Redis: which there are, and the way to each of them from any process."""

from typing import cast

from node.store import Listener, Store, keys

TTL = 45
"""Seconds until a stream counts as gone whose process died; three keep-alives."""


class StreamStore:
    """A key says that a stream is open; the channel of the same name leads to it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def keep(self, stream_id: str) -> None:
        """The stream is open, for TTL seconds more. Raises StoreUnavailable."""
        await self._store.command("SET", keys.mcp_stream(stream_id), "", "EX", TTL)

    async def is_open(self, stream_id: str) -> bool:
        """Whether there is such a stream. Raises StoreUnavailable."""
        return await self._store.command("EXISTS", keys.mcp_stream(stream_id)) == 1

    async def close(self, stream_id: str) -> None:
        """The stream is gone. Raises StoreUnavailable."""
        await self._store.command("DEL", keys.mcp_stream(stream_id))

    async def listen(self, stream_id: str) -> Listener:
        """What others send to the stream, from now on."""
        return await self._store.wakeups.listen(keys.mcp_stream(stream_id))

    async def deliver(self, stream_id: str, message: bytes) -> bool:
        """Send to the stream; whether a process listens for it. Raises StoreUnavailable."""
        return cast("int", await self._store.command("SPUBLISH", keys.mcp_stream(stream_id), message)) > 0
