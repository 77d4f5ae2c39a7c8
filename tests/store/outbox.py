"""An outbox on a real server, for the tests of its readers: writing, reading, and what a dead reader leaves behind."""

import asyncio
import struct
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from node.common import counters
from node.store import Store, keys
from node.store.decoding import entry_id
from node.store.outbox import Consumer, Event, Handler
from tests.store.conftest import step
from tests.support.servers import PATIENCE, RedisServer

GROUP = "readers"
STREAM = keys.events(7)

ANNOUNCE = """
local id = redis.call('XADD', key1, '*', 'type', 'thread.posted', 'id', arg1)
redis.call('SPUBLISH', key1, 'thread.posted')
return id
"""
WRITE = step("write", ANNOUNCE, args=1)


class Seen:
    """A handler that records its events, and fails on the entities that a test names."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.bad: set[str] = set()
        self.error: type[Exception] = ValueError

    async def __call__(self, events: Sequence[Event]) -> None:
        self.batches.append([event.entity for event in events])
        if any(event.entity in self.bad for event in events):
            raise self.error("no")

    @property
    def entities(self) -> set[str]:
        return {entity for batch in self.batches for entity in batch}


async def write(store: Store, *entities: str, stream: str = STREAM) -> list[bytes]:
    """Write new events, and return their ids."""
    ids: list[bytes] = []
    for entity in entities:
        written = await store.run(WRITE(stream, entity))
        assert isinstance(written, bytes)
        ids.append(written)
    return ids


@asynccontextmanager
async def reading(
    store: Store, handle: Handler, group: str = GROUP, at_once: int = 1, *, may_fail: bool = False
) -> AsyncGenerator[None]:
    """Run a consumer for as long as the context lasts. `may_fail`: some of its readers fail, and are restarted."""
    stop = asyncio.Event()
    failed_before = counters.RESTARTS[f"events:{group}"]
    running = asyncio.create_task(Consumer(store, group, handle, at_once=at_once).run(stop))
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait_for(running, PATIENCE)
    assert may_fail or counters.RESTARTS[f"events:{group}"] == failed_before


def raw(server: RedisServer, *command: str | bytes | int) -> Any:
    """Return the answer as Redis sends it, because redis-py converts those about streams."""
    return server.do("EVAL", "return redis.call(unpack(ARGV))", 0, *command)


def pending(server: RedisServer, group: str = GROUP) -> int:
    """Return the number of pending events; -1 before anybody has joined the group."""
    if not server.do("EXISTS", STREAM) or group.encode() not in {
        row[1] for row in raw(server, "XINFO", "GROUPS", STREAM)
    }:
        return -1
    return raw(server, "XPENDING", STREAM, group)[0]


def held_by_the_dead(server: RedisServer, count: int, minutes: float = 1) -> None:
    """Make it look as if a worker had read this many events that long ago, and died."""
    server.do("XGROUP", "CREATE", STREAM, GROUP, "0")
    server.do("XREADGROUP", "GROUP", GROUP, "the dead", "COUNT", count, "STREAMS", STREAM, ">")
    move(server, minutes)


def move(server: RedisServer, minutes: float, deliveries: int = 1) -> None:
    """Make the pending events look as if they had been delivered that long ago."""
    for entry, owner, _, _ in raw(server, "XPENDING", STREAM, GROUP, "-", "+", 1000):
        age = ("IDLE", int(minutes * 60_000), "RETRYCOUNT", deliveries, "JUSTID")
        raw(server, "XCLAIM", STREAM, GROUP, owner, 0, entry, *age)


def set_back(server: RedisServer) -> None:
    """Make it look as if the clock had been set back since the pending events were delivered: in a day from now.

    No command can do so, so the outbox is dumped, changed and restored. In the dump, the time of delivery follows the
    id, which appears once more at the end, with the consumer.
    """
    dump = bytearray(raw(server, "DUMP", STREAM))
    for entry, _, idle, _ in raw(server, "XPENDING", STREAM, GROUP, "-", "+", 1000):
        name = struct.pack(">QQ", *entry_id(entry))
        place = dump.rindex(name, 0, dump.rindex(name)) + len(name)
        (delivered,) = struct.unpack_from("<q", dump, place)
        struct.pack_into("<q", dump, place, delivered + idle + 86_400_000)
    _restore(server, dump)


def silence(server: RedisServer, minutes: float) -> None:
    """Make it look as if no reader had sent a command for that long. In the dump, the time follows the name."""
    dump = bytearray(raw(server, "DUMP", STREAM))
    for row in raw(server, "XINFO", "CONSUMERS", STREAM, GROUP):
        name = bytes([len(row[1])]) + row[1]
        place = dump.rindex(name) + len(name)
        (seen,) = struct.unpack_from("<q", dump, place)
        struct.pack_into("<q", dump, place, seen - int(minutes * 60_000))
    _restore(server, dump)


def _restore(server: RedisServer, dump: bytearray) -> None:
    dump[-8:] = struct.pack("<Q", _crc64(dump[:-8]))
    raw(server, "RESTORE", STREAM, 0, bytes(dump), "REPLACE")


def _crc64(data: bytes | bytearray) -> int:
    """Return the checksum used by DUMP: CRC-64/Jones, as in Redis' `crc64.c`."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x95AC9329AC4BC9B5 if crc & 1 else 0)
    return crc
