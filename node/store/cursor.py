"""A cursor over a sorted set whose scores are times (ms): reads it page by page, oldest members first.

Members are not read again until the cursor is restarted, so members that stay in the set cost nothing. Members may be
removed between two reads.
"""

import math
from collections.abc import Sequence

from node.store.decoding import scores_of
from node.store.store import Store


class TimeCursor:
    """The position of one reader in one sorted set."""

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._key = key
        self._at = -math.inf
        """Score of the last member that was read."""
        self._passed: set[str] = set()
        """Members with the score `_at` that were read."""

    def restart(self) -> None:
        """Go back to the oldest member."""
        self._at = -math.inf

    async def next(self, until: int, count: int) -> Sequence[str]:
        """Return at most `count` next members with a time up to `until` (ms). Raises StoreUnavailable."""
        reply = await self._store.command(
            *("ZRANGE", self._key, self._at, until, "BYSCORE"),
            *("LIMIT", 0, count + len(self._passed), "WITHSCORES"),
        )
        found = scores_of(reply)
        fresh = [(name, score) for name, score in found if score != self._at or name not in self._passed][:count]
        for name, score in fresh:
            if score != self._at:
                self._at, self._passed = score, set()
            self._passed.add(name)
        return [name for name, _ in fresh]
