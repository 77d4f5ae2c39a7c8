"""The event outboxes and the workers that read them: every event is handled at least once by every group.

The script that changes an entity also appends an event to the outbox of the partition, a Redis stream
(`lua/lib/announce.lua`). Everything that follows from the change, such as lists, the search index and callbacks, is
derived from these events after the acknowledgement. Each such purpose has a consumer group, which sees all events, each
in one worker.

Guarantees, even if processes die:

- An event is acknowledged after its handler has returned, never before. So it may be handled twice, and handlers are
  idempotent.
- An event whose handler failed stays pending and is delivered again. It holds up neither the other events of its batch
  nor later ones.
- If a worker dies, another worker takes over its pending events: as soon as the death is noticed (`heartbeats`), or
  else when the events are older than STALE_MS.
- An event is trimmed after every group has acknowledged it (`OutboxTrimmer`).

A new event wakes the readers by a message on the channel that has the name of the stream. So an idle worker polls Redis
only every POLL_SECONDS, in case such a message was lost.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import cast

import msgspec
import structlog

from node.common.background import Background
from node.common.stopping import sleep_unless_stopped
from node.store import ids, keys
from node.store.decoding import entry_id, texts_of
from node.store.errors import CommandFailed, OutOfMemory, StoreUnavailable
from node.store.heartbeats import new_name
from node.store.steps import Key, Rest, step
from node.store.store import Store
from node.store.wakeups import Listener

log = structlog.get_logger()

BATCH_SIZE = 64
"""Most events that a handler gets at a time."""

REST_FACTOR, MAX_REST_SECONDS = 8, 0.5
"""After each batch that was not full, a reader rests for REST_FACTOR times as long as the batch took, up to the
maximum. Events of the meantime form one batch: an idle node handles an event at once, a busy one saves overhead."""

POLL_SECONDS = 5.0
"""Time between two reads of an outbox without a wake-up: the longest delay after a lost wake-up."""

STALE_MS = 30_000
"""An event that is pending for this long is taken over, unless its reader renews it while working on it."""

RENEW_SECONDS = STALE_MS / 3000
"""Time between two renewals of the events that a reader works on: a third of STALE_MS."""

TAKE_OVER_SECONDS = 10.0
"""Time between two searches for stale events."""

STOP_SECONDS = 5.0
"""Grace period for batches under way when the worker stops. Events of a batch that is cut off are delivered again."""

MAX_DELIVERIES = 1000
"""Failures, over about eight hours, after which an event is given up. Until then no later event can be trimmed."""

TRIM_SECONDS = 30.0
"""Time between two trims of an outbox."""

ABANDONED_MS = 2000
"""Least idle time of an event that is taken over from a dead worker. Less than the silence after which a worker counts
as dead (`heartbeats.SILENT_MS`), but enough to leave events that another worker has just taken over to that worker."""

READER_GONE_MS = 60_000
"""A consumer that is idle for this long and holds no event is deleted from its group. A living one reads every
POLL_SECONDS, and its next read would create it again. Each start of a worker adds 320 consumers: those that a worker
leaves that dies every few seconds would otherwise pile up until a trim takes Redis a tenth of a second."""

Entry = tuple[bytes, list[bytes] | None]
"""The id of a stream entry, and its fields, or None if the entry was trimmed while it was pending."""


@step
def events_trim(*, events: Key, gone: int, groups: Rest) -> None:
    """Trim an outbox up to the oldest event that a group still needs."""


class Event(msgspec.Struct, frozen=True):
    """Something that happened to an entity."""

    id: str
    partition: int
    kind: str
    entity: str
    fields: dict[str, str]

    @property
    def at(self) -> int:
        """When it happened, milliseconds since 1970."""
        return entry_id(self.id)[0]


Handler = Callable[[Sequence[Event]], Awaitable[None]]
"""Handles events of one partition, in order. It may get events again that it has handled before, and may be cancelled
when the worker stops."""


class Postponed(Exception):
    """Raised by a handler if something that it needs is out of reach. The handler has logged that; its events are
    delivered again."""


class Consumer:
    """This worker's consumer in one group: one reader for each outbox."""

    def __init__(self, store: Store, group: str, handle: Handler, name: str | None = None, at_once: int = 1) -> None:
        """`name`: the worker's name, never used before. `at_once`: most batches handled at the same time."""
        self.name = f"events:{group}"
        """Name under which failures are counted."""
        name = name or new_name()
        turns = asyncio.Semaphore(at_once)
        partitions = range(ids.PARTITIONS)
        self._readers = [_Reader(store, group, name, handle, turns, partition) for partition in partitions]

    async def run(self, stop: asyncio.Event) -> None:
        """Read until `stop` is set. Then the batches under way have STOP_SECONDS to be handled and acknowledged.

        An outbox that cannot be read, for any reason, is tried again, and does not hold up the others.
        """
        tasks = Background(stop)
        try:
            tasks.start(self.name, self._renew)
            reading = [tasks.start(self.name, partial(reader.run, stop)) for reader in self._readers]
            await stop.wait()
            for reader in self._readers:
                reader.wake()
            await asyncio.wait(reading, timeout=STOP_SECONDS)
        finally:
            await tasks.close()

    def inherit(self, dead: str) -> None:
        """Handle the events that the worker named `dead` left pending, unless another worker takes them first."""
        for reader in self._readers:
            reader.inherit(dead)

    async def _renew(self) -> None:
        """Keep other workers from taking over the events that are being handled here, however long that takes."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            for reader in self._readers:
                with suppress(StoreUnavailable, CommandFailed):
                    await reader.renew()


class _Reader:
    """Reads one outbox for one group."""

    def __init__(
        self, store: Store, group: str, name: str, handle: Handler, turns: asyncio.Semaphore, partition: int
    ) -> None:
        self._store = store
        self._group = group
        self._name = name
        self._handle = handle
        self._turns = turns
        """Shared by all readers of the group, so that they take turns: calls for all outboxes at once would fill the
        queue of Redis and delay acknowledgements."""
        self._partition = partition
        self._stream = keys.events(partition)
        self._is_resumed = False
        """Whether the events that were pending here when this reader failed, or lost Redis, have been handled since."""
        self._stale_sought_at = float("-inf")
        """Loop time of the last search for stale events."""
        self._dead: deque[str] = deque()
        """Dead workers whose pending events are to be handled here."""
        self._unacknowledged: Sequence[bytes] = ()
        """Ids of the events that are being handled."""
        self._listener: Listener | None = None

    def inherit(self, dead: str) -> None:
        self._dead.append(dead)
        self.wake()

    def wake(self) -> None:
        """Make the reader read now or, if it is handling a batch, right after that batch."""
        if self._listener:
            self._listener.hear(b"")

    async def renew(self) -> None:
        """Reset the age of the events that are being handled. Raises StoreUnavailable and CommandFailed."""
        if handled := self._unacknowledged:
            await self._store.command("XCLAIM", self._stream, self._group, self._name, 0, *handled, "JUSTID")

    async def run(self, stop: asyncio.Event) -> None:
        self._is_resumed = False
        with await self._store.wakeups.listen(self._stream) as listener:
            self._listener = listener
            while not stop.is_set():
                began = monotonic()
                try:
                    is_full = await self._turn(listener, stop)
                except Exception as error:
                    error.add_note(f"in the outbox of partition {self._partition}")
                    raise
                if not is_full:
                    await asyncio.sleep(min(REST_FACTOR * (monotonic() - began), MAX_REST_SECONDS))
                    await listener.next(POLL_SECONDS)

    async def _turn(self, listener: Listener, stop: asyncio.Event) -> bool:
        """Handle one batch. Returns whether to continue without waiting for a wake-up."""
        try:
            async with self._turns:
                if stop.is_set():
                    return True
                # Before the read: a later wake-up may be about an event that the read misses, so it is kept.
                listener.forget()
                if not self._is_resumed:
                    await self._resume()
                    self._is_resumed = True
                while self._dead:
                    await self._take_from(self._dead[0])
                    self._dead.popleft()
                now = asyncio.get_running_loop().time()
                if now - self._stale_sought_at >= TAKE_OVER_SECONDS:
                    self._stale_sought_at = now
                    await self._take_stale()
                entries = await self._read(">")
                await self._handle_all(entries)
                return len(entries) == BATCH_SIZE
        except StoreUnavailable:
            self._is_resumed = False
            return False
        except CommandFailed as error:
            if "NOGROUP" not in str(error):
                raise
            return await self._create_group()

    async def _create_group(self) -> bool:
        """Create the group, at the first start or after the server came back empty. Returns whether that succeeded.

        Called only when the group is found missing, since creation needs memory. Reading needs none, and may lead to
        memory being freed.
        """
        try:
            await self._store.command("XGROUP", "CREATE", self._stream, self._group, "0", "MKSTREAM", key=self._stream)
        except StoreUnavailable:
            return False
        except CommandFailed as error:
            if "BUSYGROUP" not in str(error):  # another worker has created it
                raise
        return True

    async def _resume(self) -> None:
        """Handle the events that are still pending for this reader."""
        after = "0"
        while entries := await self._read(after):
            await self._handle_all(entries)
            after = entries[-1][0].decode()

    async def _read(self, after: str) -> list[Entry]:
        """Return new entries if `after` is `>`; otherwise entries with greater ids that are pending for this reader."""
        reply = await self._store.command(
            *("XREADGROUP", "GROUP", self._group, self._name, "COUNT", BATCH_SIZE),
            *("STREAMS", self._stream, after),
            key=self._stream,
        )
        return cast("list[tuple[bytes, list[Entry]]]", reply)[0][1] if reply else []

    async def _take_from(self, dead: str) -> None:
        """Handle the events that a dead worker left pending."""
        after = "-"
        while True:
            reply = await self._store.command("XPENDING", self._stream, self._group, after, "+", BATCH_SIZE, dead)
            pending = [row[0] for row in cast("list[tuple[bytes, bytes, int, int]]", reply)]
            if not pending:
                return
            claimed = await self._store.command("XCLAIM", self._stream, self._group, self._name, ABANDONED_MS, *pending)
            await self._handle_all(cast("list[Entry]", claimed))
            after = f"({pending[-1].decode()}"

    async def _take_stale(self) -> None:
        """Handle events that have been pending for STALE_MS: a handler failed, or their worker died unnoticed."""
        after = "0-0"
        while True:
            reply = await self._store.command(
                "XAUTOCLAIM", self._stream, self._group, self._name, STALE_MS, after, "COUNT", BATCH_SIZE
            )
            cursor, entries, *_ = cast("tuple[bytes, list[Entry]]", reply)
            await self._handle_all(entries)
            after = cursor.decode()
            if after == "0-0":
                return

    async def _handle_all(self, entries: Sequence[Entry]) -> None:
        """Handle and acknowledge entries; `renew` renews them meanwhile. Raises StoreUnavailable."""
        if not entries:
            return
        self._unacknowledged = [entry for entry, _ in entries]
        try:
            await self._settle(entries)
        finally:
            self._unacknowledged = ()

    async def _settle(self, entries: Sequence[Entry]) -> None:
        """Handle entries together, and if that fails, one by one, so that only those that fail stay pending.

        If Redis is out of memory for the handler's writes, or the handler has postponed the event, the event stays
        pending and nothing is logged; later events may free memory.
        """
        failure = await self._failure_of(entries)
        if failure is None:
            await self._acknowledge(entries)
        elif len(entries) > 1:
            for each in entries:
                await self._settle([each])
        elif not isinstance(failure, OutOfMemory | Postponed):
            about = {"group": self._group, "partition": self._partition, "entry": entries[0][0].decode()}
            log.error("event not handled", **about, exc_info=failure)
            if await self._is_hopeless(entries[0][0]):
                log.error("event given up", **about)
                await self._acknowledge(entries)

    async def _failure_of(self, entries: Sequence[Entry]) -> Exception | None:
        """Return the exception with which the handler failed, or None. Raises StoreUnavailable if Redis is out of
        reach."""
        try:
            if events := [_event(self._partition, entry, flat) for entry, flat in entries if flat]:
                await self._handle(events)
        except Exception as failure:
            if isinstance(failure, StoreUnavailable) and not isinstance(failure, OutOfMemory):
                raise
            return failure
        return None

    async def _acknowledge(self, entries: Sequence[Entry]) -> None:
        await self._store.command("XACK", self._stream, self._group, *(entry for entry, _ in entries))

    async def _is_hopeless(self, entry: bytes) -> bool:
        """Return whether an event has failed MAX_DELIVERIES times."""
        reply = await self._store.command("XPENDING", self._stream, self._group, entry, entry, 1)
        rows = cast("list[tuple[bytes, bytes, int, int]]", reply)
        return bool(rows) and rows[0][3] >= MAX_DELIVERIES


class OutboxTrimmer:
    """Trims events that every group has acknowledged, and deletes consumers whose worker is gone."""

    def __init__(self, store: Store, groups: Collection[str]) -> None:
        """`groups`: all groups that read. An outbox is not trimmed before each of them has been created there."""
        self._store = store
        self._groups = sorted(groups)

    async def run(self, stop: asyncio.Event) -> None:
        """Trim every outbox every TRIM_SECONDS, until `stop` is set."""
        while not stop.is_set():
            for partition in range(ids.PARTITIONS):
                with suppress(StoreUnavailable):
                    await self.trim(keys.events(partition))
            await sleep_unless_stopped(stop, TRIM_SECONDS)

    async def trim(self, stream: Key) -> None:
        """Trim one outbox. Raises StoreUnavailable."""
        await self._store.run(events_trim(events=stream, gone=READER_GONE_MS, groups=self._groups))


def _event(partition: int, entry: bytes, flat: list[bytes]) -> Event:
    fields = texts_of(flat)
    return Event(entry.decode(), partition, fields.pop("type"), fields.pop("id"), fields)
