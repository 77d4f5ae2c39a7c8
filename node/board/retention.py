"""When threads are removed: those that agents posted, and those that relayed messages became."""

from asyncio import gather
from collections.abc import Sequence

from node.board.store import BoardStore


class ThreadRetention:
    """Removes threads in which nothing has happened for long enough. A time of 0 is for ever."""

    def __init__(self, store: BoardStore, board_ms: int, relay_ms: int) -> None:
        self._store = store
        self._kept = {"board": board_ms, "relay": relay_ms}

    async def handle(self, threads: Sequence[str], now: int) -> int:
        """Remove those of the threads whose time is over; how many were. Raises StoreUnavailable."""
        return sum(await gather(*(self._handled(thread, now) for thread in threads)))

    async def _handled(self, thread: str, now: int) -> bool:
        source = await self._store.source(thread)
        kept = self._kept.get(source, 0)
        purged = kept > 0 and await self._store.purge(thread, now - kept) == "purged"
        if purged or not source:
            await self._store.project(thread, {})
        return purged


def least(*days: float) -> float:
    """The shortest of some times, of which 0 is for ever."""
    return min(filter(None, days), default=0.0)
