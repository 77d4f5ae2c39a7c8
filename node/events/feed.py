"""The public feed: one stream of references to what happened, which workers copy from the outboxes.

It holds no contents: whoever reads an event reads the entity itself, as everybody may see it at that time. So what the
operator has hidden since is not shown, and an event takes some 100 bytes whatever it is about.
"""

from collections.abc import Sequence
from typing import cast

import msgspec

from node.events.source import START, CursorTooOld, Position
from node.store import Store, keys
from node.store.decoding import entry_id, fields_of
from node.store.outbox import Event
from node.store.steps import Key, Rest, step

TYPES = {"reply.posted": "reply.added", "task.rejected": "task.in_progress"} | {
    kind: kind
    for kind in (
        *("thread.posted", "thread.closed", "task.offered", "task.claimed", "task.in_progress", "task.released"),
        *("task.submitted", "task.completed", "task.failed", "task.canceled", "task.expired"),
        *("agent.listed", "agent.removed"),
    )
}
"""The public kinds of events in the outboxes, and the types that clients know them by."""

COPIED_AT_ONCE = 200
"""Entries of an outbox that are copied together."""

SLACK = 256
"""Entries that the feed may have beyond its length, so that it is not trimmed for each one. Trimming this many takes
Redis less than a millisecond."""

Entries = list[tuple[bytes, list[bytes]]]


@step
def feed_append(
    *, feed: Key, marks: Key, partition: int, first: str, last: str, most: int, slack: int, entries: Rest
) -> None:
    """Events of one outbox, copied once."""


class FeedEntry(msgspec.Struct, frozen=True):
    """One entry of the feed."""

    position: Position
    type: str
    entity: str
    seq: int
    """Of the reply; 0 for an event that is not about one."""
    at: int
    """When it happened, milliseconds since 1970."""


class FeedCopier:
    """A worker's part in the feed: the handler of a group of readers of the outboxes."""

    def __init__(self, store: Store, most: int) -> None:
        """`most`: entries that the feed keeps."""
        self._store = store
        self._most = most
        self._marks: dict[int, str] = {}
        """Where the copies of each outbox ended, as far as this process knows."""

    async def handle(self, events: Sequence[Event]) -> None:
        """Copy the outbox of a partition up to these events. Raises StoreUnavailable."""
        if not any(event.kind in TYPES for event in events):
            return
        partition, until = events[0].partition, max((event.id for event in events), key=entry_id)
        mark = self._marks.get(partition, "")
        # What lies between has not been trimmed: this group has acknowledged none of it.
        while not mark or entry_id(mark) < entry_id(until):
            found = cast(
                "Entries",
                await self._store.command(
                    *("XRANGE", keys.events(partition), f"({mark}" if mark else "-", until),
                    *("COUNT", COPIED_AT_ONCE),
                ),
            )
            if not found:
                return
            last = found[-1][0].decode()
            reply = await self._store.run(
                feed_append(
                    feed=keys.FEED,
                    marks=keys.FEED_MARKS,
                    partition=partition,
                    first=mark,
                    last=last,
                    most=self._most,
                    slack=SLACK,
                    entries=[part for entry, flat in found for part in _copy(entry, flat)],
                )
            )
            match reply:
                case [b"moved", bytes(moved)]:  # another worker has copied, or this one before it was restarted
                    mark = moved.decode()
                case _:
                    mark = last
            self._marks[partition] = mark


class FeedStore:
    """Reads the feed. Every method raises StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, after: Position, count: int) -> list[FeedEntry]:
        """The next `count` entries. Raises CursorTooOld, also for a position after the last entry."""
        place = f"{after[0]}-{after[1]}"
        found = cast("Entries", await self._store.command("XRANGE", keys.FEED, place, "+", "COUNT", count + 1))
        if found and _position(found[0][0]) == after:
            del found[0]  # while it is there, nothing behind it has been trimmed
        else:
            await self._require_kept(after)
        return [_entry(entry, flat) for entry, flat in found[:count]]

    async def newest(self) -> Position:
        """After the last entry."""
        return _newest(cast("Entries", await self._store.command("XREVRANGE", keys.FEED, "+", "-", "COUNT", 1)))

    async def oldest(self) -> Position:
        """Before the first entry."""
        return _position(cast("bytes | None", await self._store.command("HGET", keys.FEED_MARKS, "trimmed")))

    async def _require_kept(self, after: Position) -> None:
        """Raise CursorTooOld unless all entries after that position were there before this was called."""
        trimmed, last = await self._store.commands(
            [("HGET", keys.FEED_MARKS, "trimmed"), ("XREVRANGE", keys.FEED, "+", "-", "COUNT", 1)]
        )
        oldest = _position(cast("bytes | None", trimmed))
        if after < oldest:
            raise CursorTooOld(oldest)
        newest = _newest(cast("Entries", last))
        if after > newest:  # a failover has lost entries, or the cursor was made up
            raise CursorTooOld(newest)


def _copy(entry: bytes, flat: list[bytes]) -> tuple[str | bytes | int, ...]:
    """The entry of the feed for an entry of an outbox; nothing for one that is not public."""
    fields = fields_of(flat)
    kind = TYPES.get(fields[b"type"].decode())
    return (kind, fields[b"id"], fields.get(b"seq", b"0"), entry_id(entry)[0]) if kind else ()


def _entry(entry: bytes, flat: list[bytes]) -> FeedEntry:
    fields = fields_of(flat)
    return FeedEntry(
        _position(entry), fields[b"type"].decode(), fields[b"id"].decode(), int(fields[b"seq"]), int(fields[b"at"])
    )


def _newest(last: Entries) -> Position:
    """After the last entry, if there is one."""
    return _position(last[0][0]) if last else START


def _position(entry: bytes | None) -> Position:
    return START if entry is None else entry_id(entry)
