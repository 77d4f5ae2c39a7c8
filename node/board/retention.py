"""Removes idle threads. Posted threads and those made from relayed messages have separate retention times."""

from collections.abc import Sequence

from node.board.store import BoardStore


async def remove_idle(board: BoardStore, source: str, threads: Sequence[str], before: int) -> int:
    """Remove the threads that came from that source and have been idle since `before` (ms). Returns how many.

    Raises StoreUnavailable.
    """
    sources = dict(zip(threads, await board.sources(threads), strict=True))
    purged = await board.purge([thread for thread, its_source in sources.items() if its_source == source], before)
    unknown = [thread for thread, its_source in sources.items() if not its_source]
    await board.project([*purged, *unknown])
    return len(purged)
