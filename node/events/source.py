"""What can be followed: sources of events, each with an order of its own, and the cursors that name a position in it.

A source reads its events from what is stored, so a position means the same to every process, and after a restart.
"""

from collections.abc import Collection, Sequence
from typing import Protocol
from zlib import crc32

import msgspec

from node.common import base64url
from node.common.refusal import Invalid

Position = tuple[int, int]
"""A place between two events of a source; that of an event is the one after it. Positions of one source are ordered."""

START: Position = (0, 0)
"""Before the first event of every source."""

MAX_NUMBER = 2**63
"""Numbers in a cursor are smaller than this."""


class SourceEvent(msgspec.Struct, frozen=True):
    """One event of a source."""

    position: Position
    """The place after it."""
    type: str
    at: str
    data: object


class EventBatch(msgspec.Struct, frozen=True):
    """Events that follow each other, without those of types that were not wanted."""

    events: Sequence[SourceEvent]
    start: Position
    """Where reading began."""
    position: Position
    """Where it goes on. If there is nothing more to read now, that is not before where any other reader is, even if the
    last events are gone: only then can it join those who follow."""
    has_more: bool
    """Whether there is more to read now."""
    looked: int = 0
    """How many events were looked at without being wanted."""


class CursorTooOld(Exception):
    """Events after the position that a reader asked for are gone, or there never was such a position.

    No source reads from there: the first follower of a topic determines where its broadcast begins, for all others, too
    (`node.events.broadcast`).
    """

    def __init__(self, oldest: Position) -> None:
        super().__init__(f"the oldest position is {oldest}")
        self.oldest = oldest


class EventSource(Protocol):
    """Events of one topic."""

    @property
    def name(self) -> str:
        """Whose positions these are: a cursor is valid for sources of the same name."""
        ...

    @property
    def types(self) -> frozenset[str]:
        """All types of its events."""
        ...

    @property
    def channel(self) -> str:
        """Where a wake-up says that there may be new events. Only to be used once something was read: before that it
        is not known whether the entity exists.
        """
        ...

    async def read(self, after: Position, limit: int, types: Collection[str]) -> EventBatch:
        """The next events of these types. Raises CursorTooOld, Refused if the thing is gone, StoreUnavailable."""
        ...

    async def newest(self) -> Position:
        """After the last event. Raises as `read`."""
        ...

    async def oldest(self) -> Position:
        """Before the first event that can be read. Raises as `read`."""
        ...


def count_within(size: int, events: int, size_of_events: int) -> int:
    """How many events have about `size` bytes, at least one, if they are as large as those."""
    return max(1, size * events // max(1, size_of_events))


def cursor_of(source: str, position: Position) -> str:
    """A position as clients get it."""
    return base64url.encode(f"{_mark(source)}.{position[0]}.{position[1]}".encode())


def position_of(source: str, cursor: str) -> Position:
    """The position that `cursor_of` wrote. Raises Invalid for anything else, such as a cursor of another source."""
    try:
        _, first, second = base64url.decode(cursor).decode("ascii").split(".")
        position = int(first), int(second)
    except ValueError:
        raise _invalid() from None
    if cursor != cursor_of(source, position) or not all(0 <= number < MAX_NUMBER for number in position):
        raise _invalid()
    return position


def _mark(source: str) -> str:
    """Tells cursors of different sources apart. It protects nothing: a made-up cursor reads what any other does."""
    return f"{crc32(source.encode()):08x}"


def _invalid() -> Invalid:
    known = "one that an event or a page gave you, earliest or now"
    return Invalid.field("query", "cursor", msg=f"not a cursor of this topic; use {known}")
