"""A copy of all that one Redis server holds, taken over a connection as a replica's first copy is (SYNC).

So it needs no access to the server's disk, works on every server of a cluster, and holds exactly what the
server had at one moment after it was asked: each copy is a fork of its own. Nothing follows it, since the
connection says that it wants the snapshot only.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from node.common.private_files import open_private
from node.store.address import Location, ServerAddress
from node.store.cluster import ClusterStore
from node.store.errors import StoreUnavailable
from node.store.link import pack
from node.store.wire import Store

PATIENCE = 60.0
"""Seconds without a byte, while the server forks or writes; it sends an empty line now and then."""

CHUNK = 1024 * 1024
MARK = 40
"""Bytes that end a copy whose length the server did not know; it names them before."""


class Primary(msgspec.Struct, frozen=True):
    """A server with its share of the slots, as `0-5460`; empty for a single one."""

    server: ServerAddress
    slots: list[str]


async def primaries(store: Store, location: Location) -> list[Primary]:
    """Every server that holds data of its own. Raises StoreUnavailable."""
    if not isinstance(store, ClusterStore):
        return [Primary(location.servers[0], [])]
    found: dict[ServerAddress, list[str]] = {}
    for slots, server in await store.slot_map():
        found.setdefault(server, []).append(f"{slots.start}-{slots.stop - 1}")
    if not found:
        raise StoreUnavailable("no member of the Redis cluster could be reached")
    return [Primary(server, slots) for server, slots in found.items()]


async def snapshot(server: ServerAddress, location: Location, path: Path) -> int:
    """Write the copy of a server to a new file that only this user can read, flushed to the disk; its bytes.

    Raises StoreUnavailable if the server is out of reach or gives none, OSError if the file cannot be written.
    """
    try:
        reader, writer = await _connected(server, location)
        try:
            with open_private(path) as file:
                async for piece in _copy(reader, writer, location):
                    await asyncio.to_thread(file.write, piece)
                file.flush()
                await asyncio.to_thread(os.fsync, file.fileno())
                return file.tell()
        finally:
            writer.transport.abort()
    except (ConnectionError, TimeoutError, asyncio.IncompleteReadError) as error:
        raise StoreUnavailable(f"{server} gives no copy: {error!r}") from error


async def _connected(server: ServerAddress, location: Location) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with asyncio.timeout(PATIENCE):
        if server.path:
            return await asyncio.open_unix_connection(server.path, limit=CHUNK)
        return await asyncio.open_connection(server.host, server.port, ssl=location.access.tls, limit=CHUNK)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, location: Location) -> AsyncIterator[bytes]:
    access = location.access
    if access.password:
        words = ("AUTH", access.user, access.password) if access.user else ("AUTH", access.password)
        await _told(reader, writer, *words)
    await _told(reader, writer, "REPLCONF", "capa", "eof")
    await _told(reader, writer, "REPLCONF", "rdb-only", "1")
    writer.write(pack(("SYNC",)))
    head = await _line(reader)
    if head.startswith(b"$EOF:"):
        async for piece in _marked(reader, head[5:]):
            yield piece
        return
    if not head.startswith(b"$"):
        raise StoreUnavailable(f"Redis gives no copy: {head.decode(errors='replace')}")
    left = int(head[1:])
    while left:
        piece = await _read(reader, min(left, CHUNK))
        left -= len(piece)
        yield piece


async def _marked(reader: asyncio.StreamReader, mark: bytes) -> AsyncIterator[bytes]:
    """What comes before the mark that ends it."""
    held = b""
    while not held.endswith(mark):
        held += await _read(reader, CHUNK)
        if not held.endswith(mark):
            yield held[:-MARK]
            held = held[-MARK:]
    yield held[:-MARK]


async def _told(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *words: str) -> None:
    writer.write(pack(words))
    answer = await _line(reader)
    if not answer.startswith(b"+"):
        raise StoreUnavailable(f"Redis gives no copy: {answer.decode(errors='replace')}")


async def _line(reader: asyncio.StreamReader) -> bytes:
    """The next line that is not empty."""
    line = b""
    while not line:
        async with asyncio.timeout(PATIENCE):
            line = (await reader.readuntil(b"\n")).strip()
    return line


async def _read(reader: asyncio.StreamReader, most: int) -> bytes:
    async with asyncio.timeout(PATIENCE):
        piece = await reader.read(most)
    if not piece:
        raise ConnectionResetError("the server closed the connection half-way")
    return piece
