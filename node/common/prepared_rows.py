"""Rows of lists as JSON, kept from one answer to the next."""

from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Raw, json

S = TypeVar("S")

KEPT_BYTES = 4 * 1024 * 1024
"""Kept of one list, about: the rows of its first pages, or the 30 longest."""

OVERHEAD = 2048
"""Bytes that a row takes beyond its text, for the objects that it was made of."""


class PreparedRows(Generic[S]):
    """Encodes a row once for as long as it stays the same.

    A row is kept with what it was made of, and used again only if what was read now is equal, so it is never older than
    the read. The least recently used rows go first.
    """

    def __init__(self, show: Callable[[str, S], object], most: int = KEPT_BYTES) -> None:
        """`show` makes the row of what was read of an entity."""
        self._show = show
        self._most = most
        self._rows: dict[str, tuple[S, Raw]] = {}
        self.size = 0
        """Bytes that are kept, about."""

    def of(self, entity_id: str, source: S) -> Raw:
        """The row of an entity, of which `source` was read."""
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
