"""Going through a list by time, from its oldest member, a piece at a time.

A list here is a sorted set whose scores are times (ms). What was passed is not looked at again before
the walk begins anew, so members that stay cost nothing; what is removed on the way disturbs nobody.
"""

from collections.abc import Sequence
from typing import cast

from node.store.wire import Store


class TimeCursor:
    """One reader's place in one list."""

    def __init__(self, store: Store, listed: str) -> None:
        self._store = store
        self._listed = listed
        self._at = "-inf"
        self._passed: set[str] = set()
        """Members with exactly that score which were met already."""

    def begin_anew(self) -> None:
        """Go back to the oldest member."""
        self._at = "-inf"
        self._passed = set()

    async def next(self, until: int, count: int) -> Sequence[str]:
        """Up to `count` further members that are not younger than `until` (ms). Raises StoreUnavailable."""
        reply = await self._store.command(
            *("ZRANGE", self._listed, self._at, until, "BYSCORE"),
            *("LIMIT", 0, count + len(self._passed), "WITHSCORES"),
        )
        flat = cast("list[bytes]", reply)
        found = [(name.decode(), score.decode()) for name, score in zip(flat[::2], flat[1::2], strict=True)]
        fresh = [(name, score) for name, score in found if score != self._at or name not in self._passed][:count]
        for name, score in fresh:
            if score != self._at:
                self._at, self._passed = score, set()
            self._passed.add(name)
        return [name for name, _ in fresh]
