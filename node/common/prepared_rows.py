"""A cache of list rows as JSON, shared by successive answers."""

from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Raw, json

S = TypeVar("S")

KEPT_BYTES = 4 * 1024 * 1024
"""Approximate size of the cache of one list, in bytes: enough for the rows of the first pages, or the 30 longest rows.
"""

OVERHEAD = 2048
"""Bytes that a row takes besides its text, for the objects that it was made from."""


class PreparedRows(Generic[S]):
    """Encodes a row again only when its source has changed.

    A row is cached with the source that it was made from, and reused only for an equal source, so it is never stale.
    The least recently used rows are evicted first.
    """

    def __init__(self, show: Callable[[str, S], object], most: int = KEPT_BYTES) -> None:
        """`show` makes the row of an entity from its id and its source. `most`: approximate size of the cache, in
        bytes."""
        self._show = show
        self._most = most
        self._rows: dict[str, tuple[S, Raw]] = {}
        self.size = 0
        """Approximate present size of the cache, in bytes."""

    def of(self, entity_id: str, source: S) -> Raw:
        """Return the row of an entity. `source`: what was just read of the entity."""
        kept = self._rows.pop(entity_id, None)
        if kept is None or kept[0] != source:
            if kept is not None:
                self.size -= _size(kept[1])
            kept = source, Raw(json.encode(self._show(entity_id, source)))
            self.size += _size(kept[1])
        self._rows[entity_id] = kept
        while self.size > self._most:
            oldest = next(iter(self._rows))
            self.size -= _size(self._rows.pop(oldest)[1])
        return kept[1]


def _size(row: Raw) -> int:
    return 2 * len(memoryview(row)) + OVERHEAD
