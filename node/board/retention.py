"""When threads are removed. Posted threads and those made of relayed messages have retention times of their own."""

from collections.abc import Sequence

from node.board.store import BoardStore


class ThreadRetention:
    """Removes threads that have been idle for the retention time of their source; 0 is for ever."""

    def __init__(self, store: BoardStore, board_ms: int, relay_ms: int) -> None:
        self._store = store
        self._kept_ms = {"board": board_ms, "relay": relay_ms}

    async def handle(self, threads: Sequence[str], now: int) -> int:
        """Remove those of the threads whose time is over at `now` (ms); how many were. Raises StoreUnavailable."""
        sources = dict(zip(threads, await self._store.sources(threads), strict=True))
        idle_since = {
            thread: now - kept_ms for thread, source in sources.items() if (kept_ms := self._kept_ms.get(source, 0))
        }
        purged = await self._store.purge(idle_since)
        unknown = [thread for thread, source in sources.items() if not source]
        await self._store.project([*purged, *unknown])
        return len(purged)
