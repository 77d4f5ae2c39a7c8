"""The event outboxes, read by the worker: at least once, by as many workers as there are.

Each partition's outbox is a stream; a consumer group reads all of them. What a handler returned from
is acknowledged; what it failed on is delivered again later, what a dead worker held at once. Wake-ups come as
news on the stream's own name, so an idle worker asks for nothing but a look every few seconds.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import cast

import msgspec
import structlog

from node.store import ids, keys
from node.store.decoding import fields_of
from node.store.errors import CommandFailed, OutOfMemory, StoreUnavailable
from node.store.heartbeats import new_name
from node.store.scripts import script
from node.store.wakeups import Listener
from node.store.wire import Store

log = structlog.get_logger()

TIDY = script("events_tidy")

BATCH = 64
"""Events handed to a handler at a time."""

REST, LONGEST_REST = 8, 0.5
"""A reader rests so many times as long as it was busy, and at most so many seconds: what comes meanwhile shares
a batch. An idle node so handles an event at once, a busy one many for the price of a few."""

LOOK = 5.0
"""Seconds between looks at an outbox from which no news came: a lost wake-up costs no more."""

STALE_MS = 30_000
"""An event held this long by a reader that does not say it still works on it is taken over."""

TAKE_OVER = 10.0
"""Seconds between looks for such events; every wake-up would be a waste."""

DELIVERIES = 1000
"""After so many deliveries, some eight hours, an event that cannot be handled is given up: it holds up the trimming."""

TIDY_EVERY = 30.0
"""Seconds between trims of what every group has seen."""

ABANDONED_MS = 2000
"""What a dead worker held has been untouched for longer; what its heir has claimed has not."""

GONE_MS = 3600_000
"""A reader not heard of for so long is no more: a living one looks every few seconds."""

Entry = tuple[bytes, list[bytes] | None]
"""Id and fields; no fields if it was trimmed while somebody held it."""


class Event(msgspec.Struct, frozen=True):
    """Something that happened to an entity."""

    id: str
    partition: int
    kind: str
    entity: str
    fields: dict[str, str]


Handler = Callable[[Sequence[Event]], Awaitable[None]]


class Consumer:
    """One group's reading of every outbox."""

    def __init__(self, store: Store, group: str, handle: Handler, name: str | None = None, at_once: int = 1) -> None:
        """`name`: of the worker; never one that was used before. `at_once`: batches handled at a time."""
        name = name or new_name()
        turns = asyncio.Semaphore(at_once)
        partitions = range(ids.PARTITIONS)
        self._readers = [_Reader(store, group, name, handle, turns, partition) for partition in partitions]

    async def run(self, stop: asyncio.Event) -> None:
        """Read until `stop` is set; what was begun is finished and acknowledged."""
        async with asyncio.TaskGroup() as work:
            renewing = work.create_task(self._renew())
            async with asyncio.TaskGroup() as reading:
                for reader in self._readers:
                    reading.create_task(reader.run(stop))
                await stop.wait()
                for reader in self._readers:
                    reader.look()
            renewing.cancel()

    def inherit(self, dead: str) -> None:
        """Handle at once what the worker of that name held, unless another heir is faster."""
        for reader in self._readers:
            reader.inherit(dead)

    async def _renew(self) -> None:
        """Nobody takes over what is being handled here, however long that takes."""
        while True:
            await asyncio.sleep(STALE_MS / 3000)
            for reader in self._readers:
                with suppress(StoreUnavailable, CommandFailed):
                    await reader.renew()


class _Reader:
    """The reading of one outbox."""

    def __init__(
        self, store: Store, group: str, name: str, handle: Handler, turns: asyncio.Semaphore, partition: int
    ) -> None:
        self._store = store
        self._group = group
        self._name = name
        self._handle = handle
        self._turns = turns
        """One after the other: all outboxes at once would fill Redis' queue, and acknowledgements wait behind it."""
        self._partition = partition
        self._stream = keys.events(partition)
        self._resumed = False
        """Whether nothing is left that this reader held when Redis went away."""
        self._looked = float("-inf")
        """Loop time of the last look for what others left."""
        self._dead: deque[str] = deque()
        """Workers whose events are to be handled here."""
        self._held: Sequence[bytes] = ()
        """Ids of the events that are being handled."""
        self._listener: Listener | None = None

    def inherit(self, dead: str) -> None:
        self._dead.append(dead)
        self.look()

    def look(self) -> None:
        """Look now, or, when busy, soon again."""
        if self._listener:
            self._listener.hear(b"")

    async def renew(self) -> None:
        """Say that what is being handled still is. Raises StoreUnavailable and CommandFailed."""
        if held := self._held:
            await self._store.command("XCLAIM", self._stream, self._group, self._name, 0, *held, "JUSTID")

    async def run(self, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        with await self._store.wakeups.listen(self._stream) as listener:
            self._listener = listener
            while not stop.is_set():
                began = loop.time()
                if not await self._turn(listener, stop):
                    await asyncio.sleep(min(REST * (loop.time() - began), LONGEST_REST))
                    await listener.next(LOOK)

    async def _turn(self, listener: Listener, stop: asyncio.Event) -> bool:
        """Handle a batch of what there is; whether to go on at once."""
        try:
            async with self._turns:
                if stop.is_set():
                    return True
                listener.forget()
                if not self._resumed:
                    await self._resume()
                    self._resumed = True
                while self._dead:
                    await self._take_from(self._dead[0])
                    self._dead.popleft()
                now = asyncio.get_running_loop().time()
                if now - self._looked >= TAKE_OVER:
                    self._looked = now
                    await self._take_over()
                entries = await self._next(">")
                await self._handled(entries)
                return len(entries) == BATCH  # otherwise there will be news of any other
        except StoreUnavailable:
            self._resumed = False  # what was being handled is ours still
            return False
        except CommandFailed as error:
            if "NOGROUP" not in str(error):
                raise
            return await self._join()

    async def _join(self) -> bool:
        """Make the group: at first, and when the server has come back empty. Whether that worked.

        Not done before it is missed: it needs memory, and reading, which may free some, does not.
        """
        try:
            await self._store.command("XGROUP", "CREATE", self._stream, self._group, "0", "MKSTREAM", key=self._stream)
        except StoreUnavailable:
            return False
        except CommandFailed as error:
            if "BUSYGROUP" not in str(error):
                raise
        return True

    async def _resume(self) -> None:
        """Handle what this reader held when Redis went away."""
        after = "0"
        while entries := await self._next(after):
            await self._handled(entries)
            after = entries[-1][0].decode()

    async def _next(self, after: str) -> list[Entry]:
        reply = await self._store.command(
            *("XREADGROUP", "GROUP", self._group, self._name, "COUNT", BATCH),
            *("STREAMS", self._stream, after),
            key=self._stream,
        )
        return cast("list[tuple[bytes, list[Entry]]]", reply)[0][1] if reply else []

    async def _take_from(self, dead: str) -> None:
        """Handle what that worker held."""
        after = "-"
        while True:
            pending = await self._store.command("XPENDING", self._stream, self._group, after, "+", BATCH, dead)
            ids = [row[0] for row in cast("list[tuple[bytes, bytes, int, int]]", pending)]
            if not ids:
                return
            claimed = await self._store.command("XCLAIM", self._stream, self._group, self._name, ABANDONED_MS, *ids)
            await self._handled(cast("list[Entry]", claimed))
            after = f"({ids[-1].decode()}"

    async def _take_over(self) -> None:
        """Handle what could not be handled before, or was left behind by whom nobody knows."""
        after = "0-0"
        while True:
            reply = await self._store.command(
                "XAUTOCLAIM", self._stream, self._group, self._name, STALE_MS, after, "COUNT", BATCH
            )
            cursor, entries, *_ = cast("tuple[bytes, list[Entry]]", reply)
            await self._handled(entries)
            after = cursor.decode()
            if after == "0-0":
                return

    async def _handled(self, entries: Sequence[Entry]) -> None:
        """Handle and acknowledge. One bad event holds up neither those of its batch nor those behind it."""
        if not entries:
            return
        self._held = [entry_id for entry_id, _ in entries]
        try:
            if not await self._tried(entries, last=len(entries) == 1) and len(entries) > 1:
                for entry in entries:
                    await self._tried([entry], last=True)
        finally:
            self._held = ()

    async def _tried(self, entries: Sequence[Entry], *, last: bool) -> bool:
        """Whether the handler took them; they are acknowledged then. Raises StoreUnavailable.

        What a full Redis has no memory for stays pending and comes again: the events behind it may free some.
        """
        try:
            events = [_event(self._partition, entry_id, flat) for entry_id, flat in entries if flat]
            if events:
                await self._handle(events)
        except OutOfMemory:
            return False
        except StoreUnavailable:
            raise
        except Exception:
            if not last:
                return False
            ((entry_id, _),) = entries
            log.exception("event not handled", group=self._group, partition=self._partition, entry=entry_id.decode())
            if not await self._hopeless(entry_id):
                return False  # it stays pending, and comes again
        await self._store.command("XACK", self._stream, self._group, *(entry_id for entry_id, _ in entries))
        return True

    async def _hopeless(self, entry_id: bytes) -> bool:
        reply = await self._store.command("XPENDING", self._stream, self._group, entry_id, entry_id, 1)
        rows = cast("list[tuple[bytes, bytes, int, int]]", reply)
        if not rows or rows[0][3] < DELIVERIES:
            return False
        log.error("event given up", group=self._group, partition=self._partition, entry=entry_id.decode())
        return True


class OutboxTrimmer:
    """Forgets events that every group has acknowledged, and readers that are no more."""

    def __init__(self, store: Store, groups: Collection[str]) -> None:
        """`groups`: all that read. An outbox that one of them has not joined yet is left as it is."""
        self._store = store
        self._groups = sorted(groups)

    async def run(self, stop: asyncio.Event) -> None:
        """Tidy every outbox now and then until `stop` is set."""
        while not stop.is_set():
            for partition in range(ids.PARTITIONS):
                with suppress(StoreUnavailable):
                    await self.tidy(keys.events(partition))
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), TIDY_EVERY)

    async def tidy(self, stream: str) -> None:
        """Forget what all groups have seen. Raises StoreUnavailable."""
        await self._store.run(TIDY, [stream], [GONE_MS, *self._groups])


def _event(partition: int, entry_id: bytes, flat: list[bytes]) -> Event:
    fields = {name.decode(): value.decode() for name, value in fields_of(flat).items()}
    return Event(entry_id.decode(), partition, fields.pop("type"), fields.pop("id"), fields)
