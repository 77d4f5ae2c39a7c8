"""The event outboxes, read by the worker: at least once, by as many workers as there are.

Each partition's outbox is a stream; a consumer group reads all of them. What a handler returned from
is acknowledged; what it failed on, or what a dead worker held, is delivered again. Wake-ups come as
news on the stream's own name, so an idle worker asks for nothing but a look every few seconds.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import cast

import msgspec
import structlog

from node.store import keys
from node.store.errors import CommandFailed, StoreUnavailable
from node.store.reply import fields_of
from node.store.wire import Store

log = structlog.get_logger()

BATCH = 64
"""Events handed to a handler at a time."""

LOOK = 5.0
"""Seconds between looks at an outbox from which no news came: a lost wake-up costs no more."""

STALE_MS = 30_000
"""An event held this long without an acknowledgement is taken over: three times the longest handling."""

TRIM = 30.0
"""Seconds between trims of what every group has seen."""

Entry = tuple[bytes, list[bytes]]


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

    def __init__(self, store: Store, group: str, handle: Handler) -> None:
        self._store = store
        self._group = group
        self._handle = handle
        self._name = f"{socket.gethostname()}-{os.getpid()}"

    async def run(self, stop: asyncio.Event) -> None:
        """Read until `stop` is set; what was begun is finished and acknowledged."""
        async with asyncio.TaskGroup() as readers:
            for partition in range(keys.PARTITIONS):
                readers.create_task(self._read(partition, stop))

    async def _read(self, partition: int, stop: asyncio.Event) -> None:
        stream = keys.events(partition)
        with await self._store.news.listen(stream) as listener:
            ready = False
            while not stop.is_set():
                try:
                    if not ready:
                        await self._join(stream)
                        ready = True
                    await self._take_over(partition, stream)
                    while await self._drain(partition, stream) and not stop.is_set():
                        pass
                except StoreUnavailable:
                    ready = False  # a server that came back empty has no group
                news = asyncio.ensure_future(listener.next(LOOK))
                stopping = asyncio.ensure_future(stop.wait())
                await asyncio.wait({news, stopping}, return_when=asyncio.FIRST_COMPLETED)
                for waiting in (news, stopping):
                    waiting.cancel()

    async def _join(self, stream: str) -> None:
        # BUSYGROUP: it exists.
        with suppress(CommandFailed):
            await self._store.command("XGROUP", "CREATE", stream, self._group, "0", "MKSTREAM", key=stream)

    async def _drain(self, partition: int, stream: str) -> bool:
        """Handle the next events; whether there were any."""
        reply = await self._store.command(
            "XREADGROUP", "GROUP", self._group, self._name, "COUNT", BATCH, "STREAMS", stream, ">", key=stream
        )
        if not reply:
            return False
        ((_, entries),) = cast("list[tuple[bytes, list[Entry]]]", reply)
        await self._handled(partition, stream, entries)
        return True

    async def _take_over(self, partition: int, stream: str) -> None:
        """Handle what a worker left behind, or what could not be handled before."""
        reply = await self._store.command(
            "XAUTOCLAIM", stream, self._group, self._name, STALE_MS, "0-0", "COUNT", BATCH
        )
        entries = [entry for entry in cast("list[list[Entry]]", reply)[1] if entry[1]]
        if entries:
            await self._handled(partition, stream, entries)

    async def _handled(self, partition: int, stream: str, entries: Sequence[Entry]) -> None:
        try:
            await self._handle([_event(partition, *entry) for entry in entries])
        except StoreUnavailable:
            raise
        except Exception:
            # The events stay pending and come again; the outbox goes on, so that one bad event stops nothing.
            log.exception("events not handled", group=self._group, partition=partition, count=len(entries))
            return
        await self._store.command("XACK", stream, self._group, *(entry[0] for entry in entries))


class Janitor:
    """Forgets events that every group has acknowledged, and readers that are no more."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self, stop: asyncio.Event) -> None:
        """Trim every outbox now and then until `stop` is set."""
        while not stop.is_set():
            with suppress(StoreUnavailable, CommandFailed):
                for partition in range(keys.PARTITIONS):
                    await self.trim(keys.events(partition))
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), TRIM)

    async def trim(self, stream: str) -> None:
        """Forget what all groups have seen. Raises StoreUnavailable."""
        if not await self._store.command("EXISTS", stream):
            return
        seen: list[tuple[int, int]] = []
        for group in cast("list[list[bytes]]", await self._store.command("XINFO", "GROUPS", stream, key=stream)):
            facts = fields_of(group)
            name = facts[b"name"]
            pending = cast("list[bytes]", await self._store.command("XPENDING", stream, name))
            # The oldest event not acknowledged, or the first not yet delivered.
            seen.append(_number(pending[1]) if pending[1] else _after(facts[b"last-delivered-id"]))
        if seen:
            milliseconds, sequence = min(seen)
            await self._store.command("XTRIM", stream, "MINID", "~", f"{milliseconds}-{sequence}")


def _event(partition: int, entry_id: bytes, flat: list[bytes]) -> Event:
    fields = {name.decode(): value.decode() for name, value in fields_of(flat).items()}
    return Event(entry_id.decode(), partition, fields.pop("type"), fields.pop("id"), fields)


def _number(entry_id: bytes) -> tuple[int, int]:
    milliseconds, _, sequence = entry_id.partition(b"-")
    return int(milliseconds), int(sequence)


def _after(entry_id: bytes) -> tuple[int, int]:
    milliseconds, sequence = _number(entry_id)
    return milliseconds, sequence + 1
