"""Keeps the rows of lists as JSON from one answer to the next."""

from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Raw, json

S = TypeVar("S")

KEPT_BYTES = 4 * 1024 * 1024
"""Bytes kept for one list, about: enough for the rows of its first pages, or for the 30 longest rows."""

OVERHEAD = 2048
"""Bytes that a row takes besides its text, for the objects it was made from."""


class PreparedRows(Generic[S]):
    """Encodes a row once for as long as it stays the same.

    A row is kept with the source it was made from, and used again only for an equal source, so it is never older than
    what was read. The least recently used rows are dropped first.
    """

    def __init__(self, show: Callable[[str, S], object], most: int = KEPT_BYTES) -> None:
        """`show` makes the row of an entity from its id and what was read of it. `most`: bytes kept, about."""
        self._show = show
        self._most = most
        self._rows: dict[str, tuple[S, Raw]] = {}
        self.size = 0
        """Bytes kept now, about."""

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
