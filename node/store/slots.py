"""The slot arithmetic of Redis Cluster: the slot of a key, and which server serves which slots."""

from binascii import crc_hqx
from typing import cast

from node.store.address import ServerAddress
from node.store.link import RedisReply
from node.store.scripts import Arg

SLOTS = 16384


def slot_of(key: Arg) -> int:
    """Return the slot of a key: CRC16 (XMODEM) of its hash tag, or of the whole key if it has none (cluster
    specification)."""
    raw = key if isinstance(key, bytes) else str(key).encode()
    start = raw.find(b"{")
    if start >= 0:
        end = raw.find(b"}", start + 1)
        if end > start + 1:
            raw = raw[start + 1 : end]
    return crc_hqx(raw, 0) % SLOTS


def read_map(reply: RedisReply, asked: ServerAddress) -> list[tuple[range, ServerAddress]]:
    """Return the slots and address of each primary in a reply to CLUSTER SLOTS.

    If a row has no host, its host is that of the server that was `asked`.
    """
    found: list[tuple[range, ServerAddress]] = []
    for row in cast("list[tuple[int, int, list[RedisReply]]]", reply):
        first, last, primary = row[:3]
        host, port = cast("tuple[bytes | None, int]", primary[:2])
        found.append((range(first, last + 1), ServerAddress(_host(host, asked), port)))
    return found


def read_redirect(error: str, asked: ServerAddress) -> tuple[int, ServerAddress]:
    """Return the slot and the server in `MOVED 3999 host:port` or `ASK 3999 host:port`."""
    _, slot, target = error.split(" ")[:3]
    host, _, port = target.rpartition(":")
    return int(slot), ServerAddress(_host(host.strip("[]").encode(), asked), int(port))


def _host(host: bytes | None, asked: ServerAddress) -> str:
    return host.decode() if host and host != b"?" else asked.host
