"""The public feed: one stream of references to events, which workers copy from the outboxes.

The feed has no contents. Whoever reads an event reads the entity itself, as everybody may see it at that time. So an
entity that the operator has hidden since is not shown, and an event takes some 100 bytes whatever it is about.
"""

import asyncio
import math
from collections.abc import Sequence
from typing import NamedTuple, cast

import msgspec

from node.events.source import START, CursorTooOld, Position
from node.store import Store, StoreUnavailable, ids, keys
from node.store.decoding import entry_id, fields_of
from node.store.outbox import Event
from node.store.steps import Key, Rest, step
from node.store.unreadable import reached

TYPES = {"reply.posted": "reply.added", "task.rejected": "task.in_progress", "task.retried": "task.offered"} | {
    kind: kind
    for kind in (
        *("thread.posted", "thread.closed", "task.offered", "task.claimed", "task.in_progress", "task.released"),
        *("task.submitted", "task.completed", "task.failed", "task.canceled", "task.expired"),
        *("agent.listed", "agent.removed"),
    )
}
"""The public kinds of events in the outboxes, with the types by which clients know them."""

READ_EACH = 8
"""Entries that are read from each outbox at a time. Copying the maximum of 512 together takes Redis some 2 ms."""

SLACK = 256
"""Entries by which the feed may exceed its length, so that it is not trimmed for every entry. Trimming this many takes
Redis less than a millisecond."""

Entries = list[tuple[bytes, list[bytes]]]


class CopiedPart(NamedTuple):
    """The part of an outbox that one step copies."""

    partition: int
    first: str
    """Entry id at which the last copy of the outbox ended, as far as this process knows; empty for the beginning."""
    last: str
    """Entry id at which this copy ends."""


@step
def feed_append(*, feed: Key, marks: Key, most: int, slack: int, outboxes: int, parts: Rest) -> None:
    """Copy events of some outboxes, each exactly once."""


class FeedEntry(msgspec.Struct, frozen=True):
    """One entry of the feed."""

    position: Position
    type: str
    entity: str
    seq: int
    """Number of the reply; 0 for an event that is not about a reply."""
    at: int
    """When it happened, milliseconds since 1970."""


class FeedCopier:
    """A worker's part in the feed: the handler of the group `feed`, which reads the outboxes.

    Whichever outbox it is called for, it copies from all outboxes what happened until then, in the order of time. So
    the feed is in the order of time although the outboxes are read one by one, as far as the clocks of a cluster's
    servers agree.
    """

    def __init__(self, store: Store, most: int) -> None:
        """`most`: maximum number of entries that the feed keeps."""
        self._store = store
        self._most = most
        self._turn = asyncio.Lock()
        self._marks: dict[int, str] = {}
        """Entry id by partition at which the last copy of its outbox ended, as far as this process knows."""

    async def handle(self, events: Sequence[Event]) -> None:
        """Copy everything up to and including these events of one outbox. Raises StoreUnavailable."""
        if not any(event.kind in TYPES for event in events):
            return
        partition, until = events[0].partition, max(entry_id(event.id) for event in events)
        async with self._turn:
            if not self._marks:
                self._marks = await self._known_marks()
            while entry_id(self._marks.get(partition) or "0-0") < until and await self._copy(partition, until[0]):
                pass

    async def _known_marks(self) -> dict[int, str]:
        found = fields_of(cast("list[bytes]", await self._store.command("HGETALL", keys.FEED_MARKS)))
        return {int(name): mark.decode() for name, mark in found.items() if name.isdigit()}

    async def _copy(self, partition: int, until: int) -> bool:
        """Copy some of the events until a time (ms). Returns whether there were any.

        Raises StoreUnavailable even if only the outbox of this partition cannot be read: its events would otherwise be
        acknowledged, and then trimmed, without having been copied.

        All earlier events can be read: the time is that of an event that was already read, and events that were not
        copied have not been trimmed, because this group has not acknowledged them.
        """
        found = await self._read(until)
        if partition not in found:
            raise StoreUnavailable("the outbox cannot be read")
        # An outbox may have more entries than were read, so nothing after its last entry here can be copied yet.
        ends = [entry_id(entries[-1][0]) for entries in found.values() if len(entries) == READ_EACH]
        end = min(ends, default=(until, math.inf))
        copied: dict[int, CopiedPart] = {}
        merged: list[tuple[tuple[int, int], int, list[bytes]]] = []
        for each, entries in found.items():
            for entry, flat in entries:
                if (position := entry_id(entry)) <= end:
                    merged.append((position, each, flat))
                    copied[each] = CopiedPart(each, self._marks.get(each, ""), entry.decode())
        if not merged:
            return False
        parts: list[str | bytes | int] = [part for outbox in copied.values() for part in outbox]
        for position, _, flat in sorted(merged):
            parts += _reference(position[0], flat)
        reply = await self._store.run(
            feed_append(
                feed=keys.FEED,
                marks=keys.FEED_MARKS,
                most=self._most,
                slack=SLACK,
                outboxes=len(copied),
                parts=parts,
            )
        )
        if reply == [b"moved"]:  # another worker has copied, or this worker did before it was restarted
            self._marks = await self._known_marks()
        else:
            self._marks |= {outbox.partition: outbox.last for outbox in copied.values()}
        return True

    async def _read(self, until: int) -> dict[int, Entries]:
        """Read the entries after the mark of each outbox that can be reached, until a time (ms)."""
        partitions = range(ids.PARTITIONS)
        starts = [f"({mark}" if (mark := self._marks.get(each)) else "-" for each in partitions]
        reading = [
            ("XRANGE", keys.events(partition), start, until, "COUNT", READ_EACH)
            for partition, start in zip(partitions, starts, strict=True)
        ]
        found = reached(partitions, await self._store.run_reachable(reading))
        return {partition: cast("Entries", entries) for partition, entries in found}


class FeedStore:
    """Reads the feed. Every method raises StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, after: Position, count: int) -> list[FeedEntry]:
        """Return the next `count` entries. Raises CursorTooOld, also for a position after the last entry."""
        start = f"{after[0]}-{after[1]}"
        found = cast("Entries", await self._store.command("XRANGE", keys.FEED, start, "+", "COUNT", count + 1))
        if found and _position(found[0][0]) == after:
            del found[0]  # while this entry exists, nothing after it has been trimmed
        else:
            await self._require_kept(after)
        return [_entry(entry, flat) for entry, flat in found[:count]]

    async def newest(self) -> Position:
        """Return the position after the last entry."""
        return (await self._ends())[1]

    async def oldest(self) -> Position:
        """Return the position before the first entry."""
        return (await self._ends())[0]

    async def _require_kept(self, after: Position) -> None:
        """Raise CursorTooOld if entries after a position may be missing."""
        oldest, newest = await self._ends()
        if after < oldest:
            raise CursorTooOld(oldest)
        if after > newest:  # a failover has lost entries, or the cursor was made up
            raise CursorTooOld(newest)

    async def _ends(self) -> tuple[Position, Position]:
        """Return the positions before the first entry and after the last one. The second is never before the first.

        If Redis has lost the feed but not FEED_MARKS, both are where the feed was last trimmed. If the end were before
        the beginning, a reader would be sent back and forth for ever.
        """
        trimmed, last = await self._store.run_all(
            [("HGET", keys.FEED_MARKS, "trimmed"), ("XREVRANGE", keys.FEED, "+", "-", "COUNT", 1)]
        )
        oldest = _position(cast("bytes | None", trimmed))
        entries = cast("Entries", last)
        return oldest, max(oldest, _position(entries[0][0] if entries else None))


def _reference(at: int, flat: list[bytes]) -> tuple[str | bytes | int, ...]:
    """Return the feed entry for an event at a time (ms); empty for an event that is not public.

    Empty also for an entry that is no event: each copy is from all outboxes, so every copy would fail on that entry for
    ever. The readers of its outbox log it (`outbox`).
    """
    fields = fields_of(flat)
    kind, entity = TYPES.get(fields.get(b"type", b"").decode(errors="replace")), fields.get(b"id")
    seq = fields.get(b"seq", b"0")
    return (kind, entity, seq, at) if kind and entity and seq.isdigit() else ()


def _entry(entry: bytes, flat: list[bytes]) -> FeedEntry:
    fields = fields_of(flat)
    return FeedEntry(
        _position(entry), fields[b"type"].decode(), fields[b"id"].decode(), int(fields[b"seq"]), int(fields[b"at"])
    )


def _position(entry: bytes | None) -> Position:
    return START if entry is None else entry_id(entry)
