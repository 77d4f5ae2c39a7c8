"""Sources of events that can be followed. Each has its own order of events, and cursors that name a position in it.

A source reads its events from stored data, so a position means the same in every process, and after a restart.
"""

from collections.abc import Collection, Sequence
from typing import Protocol
from zlib import crc32

import msgspec

from node.common import base64url
from node.common.refusal import Invalid

Position = tuple[int, int]
"""A point between two events of a source. The position of an event is after the event. Positions are ordered."""

START: Position = (0, 0)
"""Before the first event of every source."""

MAX_NUMBER = 2**63
"""Numbers in a cursor are smaller than this."""


class SourceEvent(msgspec.Struct, frozen=True):
    """One event of a source."""

    position: Position
    """The position after the event."""
    type: str
    at: str
    data: object


class EventBatch(msgspec.Struct, frozen=True):
    """Consecutive events, without those of types that were not wanted."""

    events: Sequence[SourceEvent]
    start: Position
    """Where reading began."""
    position: Position
    """Where reading continues. If there is nothing more to read now, this is as far as any other reader has come, even
    if the last events are gone: otherwise the reader could not join the followers."""
    has_more: bool
    """Whether there is more to read now."""
    looked: int = 0
    """Number of events that were read but not wanted."""


class CursorTooOld(Exception):
    """Events after the requested position are gone, or the position never existed.

    No source reads from such a position, because the first follower of a topic determines for all others where the
    topic's broadcast begins (`node.events.broadcast`).
    """

    def __init__(self, oldest: Position) -> None:
        super().__init__(f"the oldest position is {oldest}")
        self.oldest = oldest


class EventSource(Protocol):
    """Events of one topic."""

    @property
    def name(self) -> str:
        """Name of the order of events. A cursor is valid for all sources with the same name."""
        ...

    @property
    def types(self) -> frozenset[str]:
        """All types of the source's events."""
        ...

    @property
    def channel(self) -> str:
        """Channel on which a wake-up says that there may be new events.

        To be used only after a read, because before that it is not known whether the entity exists.
        """
        ...

    async def read(self, after: Position, limit: int, types: Collection[str]) -> EventBatch:
        """Read the next events of these types. Raises CursorTooOld, Refused if the entity is gone, StoreUnavailable."""
        ...

    async def newest(self) -> Position:
        """Return the position after the last event. Raises as `read`."""
        ...

    async def oldest(self) -> Position:
        """Return the position before the first event that can be read. Raises as `read`."""
        ...


def count_within(size: int, events: int, size_of_events: int) -> int:
    """Estimate how many events have `size` bytes, given the size of `events` others. Returns at least 1."""
    return max(1, size * events // max(1, size_of_events))


def cursor_of(source: str, position: Position) -> str:
    """Return the cursor for a position, as given to clients."""
    return base64url.encode(f"{_mark(source)}.{position[0]}.{position[1]}".encode())


def position_of(source: str, cursor: str) -> Position:
    """Return the position in a cursor. Raises Invalid unless `cursor_of` wrote the cursor for a source of this name."""
    try:
        _, first, second = base64url.decode(cursor).decode("ascii").split(".")
        position = int(first), int(second)
    except ValueError:
        raise _invalid() from None
    if cursor != cursor_of(source, position) or not all(0 <= number < MAX_NUMBER for number in position):
        raise _invalid()
    return position


def _mark(source: str) -> str:
    """Return a mark that tells apart the cursors of different sources. It is no protection, and none is needed: with a
    made-up cursor, a client reads nothing that other cursors do not give.
    """
    return f"{crc32(source.encode()):08x}"


def _invalid() -> Invalid:
    known = "the cursor of a page, the id of an event, earliest or now"
    return Invalid.field("query", "cursor", msg=f"is not a cursor of this topic; use {known}")
