"""Clients that the operator has blocked: the list in Redis, and what each web process knows of it.

A process never asks Redis about a request. It reads the list when it starts, when it is told of a change,
and every few seconds; while Redis is out of reach it goes by what it read last.
"""

import ipaddress
import math
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network
from typing import cast

import msgspec
import structlog

from node.store import CommandFailed, Store, StoreUnavailable, keys
from node.store.decoding import fields_of

log = structlog.get_logger()

Network = IPv4Network | IPv6Network

CLIENT_PREFIX = 64
"""Bits of an IPv6 address that make a client (DESIGN 6): less than its /64 cannot be told apart."""

LOOK = 5.0
"""Seconds between looks at the list without news of it."""

REMEMBERED = 10_000
"""Clients whose verdict a process remembers; beyond it the list is asked again."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Why a network is blocked."""

    since: int
    """ms, by Redis' clock, as is `until`."""
    until: int | None = None
    """None = until the operator takes it off."""
    reason: str = ""
    who: str = ""


class Blocklist:
    """The list in Redis, as the operator changes it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def block(self, network: Network, seconds: int | None, reason: str, who: str) -> Block:
        """Block a network, or block it anew. Raises StoreUnavailable."""
        now = await self._now()
        until = now + seconds * 1000 if seconds else None
        block = Block(since=now, until=until, reason=reason, who=who)
        await self._store.command("HSET", keys.BLOCKED, str(network), msgspec.json.encode(block))
        await self._tell()
        return block

    async def unblock(self, network: Network) -> bool:
        """Take a network off; False if it is not on the list. Raises StoreUnavailable."""
        removed = await self._store.command("HDEL", keys.BLOCKED, str(network))
        await self._tell()
        return removed == 1

    async def read(self) -> tuple[dict[Network, Block], int]:
        """What is blocked now, and what time that is (ms). Raises StoreUnavailable."""
        entries = fields_of(await self._store.command("HGETALL", keys.BLOCKED))
        now = await self._now() if entries else 0
        found: dict[Network, Block] = {}
        for name, value in entries.items():
            try:
                network, block = network_of(name.decode()), msgspec.json.decode(value, type=Block)
            except (ValueError, msgspec.DecodeError):
                log.warning("entry of the blocklist cannot be read", network=name.decode(errors="replace"))
                continue
            if block.until is None or block.until > now:
                found[network] = block
        return found, now

    async def forget_expired(self) -> None:
        """Take off what is blocked no more. Raises StoreUnavailable."""
        blocked, _ = await self.read()
        listed = cast("list[bytes]", await self._store.command("HKEYS", keys.BLOCKED))
        names = {str(network) for network in blocked}
        if gone := [name for name in listed if name.decode() not in names]:
            await self._store.command("HDEL", keys.BLOCKED, *gone)

    async def _tell(self) -> None:
        await self._store.command("SPUBLISH", keys.BLOCKED, "")

    async def _now(self) -> int:
        seconds, micros = cast("list[bytes]", await self._store.command("TIME", key=keys.BLOCKED))
        return int(seconds) * 1000 + int(micros) // 1000


class Blocked:
    """What one process knows of the list."""

    def __init__(self, store: Store) -> None:
        self._list = Blocklist(store)
        self._news = store.wakeups
        self._table: Mapping[tuple[int, int], frozenset[int]] = {}
        """Of each IP version and prefix length, the prefixes."""
        self._verdicts: dict[str, bool] = {}
        self._pause = LOOK

    def __contains__(self, client: str) -> bool:
        """Whether the requests of a client, named as limits count it, are refused."""
        if not self._table:
            return False
        verdict = self._verdicts.get(client)
        if verdict is None:
            if len(self._verdicts) >= REMEMBERED:
                self._verdicts.clear()
            verdict = self._verdicts[client] = self._is_listed(client)
        return verdict

    async def run(self) -> None:
        """Keep up with the list, for ever."""
        with await self._news.listen(keys.BLOCKED) as listener:
            while True:
                with suppress(StoreUnavailable, CommandFailed):
                    await self.refresh()
                await listener.next(self._pause)

    async def refresh(self) -> None:
        """Read the list. Raises StoreUnavailable."""
        blocked, now = await self._list.read()
        table: dict[tuple[int, int], set[int]] = {}
        for network in blocked:
            place = network.version, network.prefixlen
            table.setdefault(place, set()).add(_prefix(network, network.prefixlen))
        self._table = {place: frozenset(prefixes) for place, prefixes in table.items()}
        self._verdicts.clear()
        ends = min((block.until for block in blocked.values() if block.until is not None), default=math.inf)
        self._pause = min(LOOK, max(0.01, (ends - now) / 1000))

    def _is_listed(self, client: str) -> bool:
        try:
            network = ipaddress.ip_network(client)
        except ValueError:  # a peer on a unix socket
            return False
        return any(
            version == network.version and length <= network.prefixlen and _prefix(network, length) in prefixes
            for (version, length), prefixes in self._table.items()
        )


def network_of(name: str) -> Network:
    """The network of an address or prefix; an IPv6 one is at least a /64.

    Raises ValueError, which says what to write, if it is none, or everybody.
    """
    try:
        network = ipaddress.ip_network(name.strip(), strict=False)
    except ValueError:
        raise ValueError(f"{name!r} is not an IP address or prefix, such as 203.0.113.7 or 2001:db8::/48") from None
    mapped = network.network_address.ipv4_mapped if isinstance(network, IPv6Network) else None
    if mapped is not None and network.prefixlen >= 96:
        network = IPv4Network((mapped, network.prefixlen - 96), strict=False)
    if isinstance(network, IPv6Network) and network.prefixlen > CLIENT_PREFIX:
        network = network.supernet(new_prefix=CLIENT_PREFIX)
    if network.prefixlen == 0:
        raise ValueError(f"{name!r} is everybody: stop the node instead")
    return network


def _prefix(network: Network, length: int) -> int:
    """The first `length` bits of a network's address."""
    return int(network.network_address) >> (network.max_prefixlen - length)
