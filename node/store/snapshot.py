"""Snapshots of all data of one Redis server, taken in the way in which a new replica takes its first copy (SYNC).

This needs no access to the server's disk and works for every server of a cluster. The snapshot has exactly the data of
one moment after the request, because the server forks for each copy. The connection asks for the snapshot alone, so no
replication stream follows.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec

from node.common.private_files import open_private
from node.store.address import Location, ServerAddress
from node.store.cluster import ClusterStore
from node.store.errors import CommandFailed, StoreUnavailable
from node.store.link import pack
from node.store.store import Store

SILENCE_SECONDS = 60.0
"""Longest silence of the server before the copy is given up. While it forks or writes, it sends empty lines."""

CHUNK_BYTES = 1024 * 1024

MARK_BYTES = 40
"""Length of the mark that ends a copy whose size the server does not know in advance. It announces the mark first."""


class Primary(msgspec.Struct, frozen=True):
    """A server that is not a replica, and its ranges of slots, such as `0-5460`; none without a cluster."""

    server: ServerAddress
    slots: list[str]


async def primaries(store: Store, location: Location) -> list[Primary]:
    """Return every server that is not a replica. Raises StoreUnavailable."""
    if not isinstance(store, ClusterStore):
        return [Primary(location.servers[0], [])]
    found: dict[ServerAddress, list[str]] = {}
    for slots, server in await store.slot_map():
        found.setdefault(server, []).append(f"{slots.start}-{slots.stop - 1}")
    if not found:
        raise StoreUnavailable("no member of the Redis cluster could be reached")
    return [Primary(server, slots) for server, slots in found.items()]


async def snapshot(
    server: ServerAddress, location: Location, path: Path, take: Callable[[int], None] | None = None
) -> int:
    """Write a snapshot of a server to a new file that only this user can read, and fsync it. Returns its size in bytes.

    `take` is called with the size of each piece before the piece is written, and may raise OSError.

    Raises StoreUnavailable if the server is out of reach or gives no copy, CommandFailed if the Redis user lacks the
    permission, OSError if the file cannot be written.
    """
    try:
        reader, writer = await _connected(server, location)
    except OSError as error:  # TimeoutError is one
        raise StoreUnavailable(f"Redis at {server} is out of reach: {error}") from error
    try:
        with open_private(path) as file:
            async for piece in _copy(reader, writer, location):
                if take is not None:
                    take(len(piece))
                await asyncio.to_thread(file.write, piece)
            file.flush()
            await asyncio.to_thread(os.fsync, file.fileno())
            return file.tell()
    except (ConnectionError, TimeoutError, asyncio.IncompleteReadError) as error:
        raise StoreUnavailable(f"{server} gives no copy: {error!r}") from error
    finally:
        writer.transport.abort()


async def _connected(server: ServerAddress, location: Location) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with asyncio.timeout(SILENCE_SECONDS):
        if server.path:
            return await asyncio.open_unix_connection(server.path, limit=CHUNK_BYTES)
        return await asyncio.open_connection(server.host, server.port, ssl=location.access.tls, limit=CHUNK_BYTES)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, location: Location) -> AsyncIterator[bytes]:
    if login := location.access.login:
        await _send(reader, writer, *login)
    await _send(reader, writer, "REPLCONF", "capa", "eof")
    await _send(reader, writer, "REPLCONF", "rdb-only", "1")
    writer.write(pack(("SYNC",)))
    head = await _line(reader)
    if head.startswith(b"$EOF:"):
        async for piece in _marked(reader, head[5:]):
            yield piece
        return
    if not head.startswith(b"$"):
        raise _no_copy("SYNC", head)
    left = int(head[1:])
    while left:
        piece = await _read(reader, min(left, CHUNK_BYTES))
        left -= len(piece)
        yield piece


async def _marked(reader: asyncio.StreamReader, mark: bytes) -> AsyncIterator[bytes]:
    """Yield the bytes before the mark that ends the copy."""
    unyielded = b""
    while not unyielded.endswith(mark):
        unyielded += await _read(reader, CHUNK_BYTES)
        if not unyielded.endswith(mark):
            yield unyielded[:-MARK_BYTES]
            unyielded = unyielded[-MARK_BYTES:]
    yield unyielded[:-MARK_BYTES]


async def _send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *words: str) -> None:
    """Send a command. Raises StoreUnavailable or CommandFailed if the server refuses it."""
    writer.write(pack(words))
    answer = await _line(reader)
    if not answer.startswith(b"+"):
        raise _no_copy(words[0], answer)


def _no_copy(command: str, answer: bytes) -> StoreUnavailable | CommandFailed:
    """Return the error for an answer other than a copy. A missing permission is permanent; anything else may pass."""
    said = answer.decode(errors="replace").removeprefix("-")
    if said.startswith("NOPERM"):
        return CommandFailed(f"{command}: {said}")
    return StoreUnavailable(f"Redis gives no copy: {said}")


async def _line(reader: asyncio.StreamReader) -> bytes:
    """Read the next line that is not empty."""
    line = b""
    while not line:
        async with asyncio.timeout(SILENCE_SECONDS):
            line = (await reader.readuntil(b"\n")).strip()
    return line


async def _read(reader: asyncio.StreamReader, most: int) -> bytes:
    async with asyncio.timeout(SILENCE_SECONDS):
        piece = await reader.read(most)
    if not piece:
        raise ConnectionResetError("the server closed the connection half-way")
    return piece
