"""The clients and keys that this process refuses because the operator has blocked them (`node.store.blocked`).

No request waits for Redis: the process keeps a copy of the list. It reads the list when it starts, when a change is
published, and every few seconds. While Redis cannot be reached, the last copy stays in force.
"""

import ipaddress
import math
from collections.abc import Mapping
from contextlib import suppress

from node.config.values import Network
from node.store.blocked import Blocklist
from node.store.errors import CommandFailed, StoreUnavailable

REFRESH_SECONDS = 5.0
"""Longest interval between two reads of the list, in case a published change is lost."""

MAX_REMEMBERED_CLIENTS = 10_000
"""Clients whose result is cached. When there are more, the cache is cleared."""


class BlockedClients:
    """This process' copy of the blocklist, checked for every request with `client in blocked`."""

    def __init__(self, blocklist: Blocklist) -> None:
        self._blocklist = blocklist
        self._prefixes: Mapping[tuple[int, int], frozenset[int]] = {}
        """The blocked prefixes as integers, by IP version and prefix length."""
        self._keys: frozenset[str] = frozenset()
        """Thumbprints of the keys whose signed requests are refused."""
        self._remembered: dict[str, bool] = {}

    def __contains__(self, client: str) -> bool:
        """Return whether a client is blocked. `client`: as limits name it."""
        if not self._prefixes:
            return False
        is_blocked = self._remembered.get(client)
        if is_blocked is None:
            if len(self._remembered) >= MAX_REMEMBERED_CLIENTS:
                self._remembered.clear()
            is_blocked = self._remembered[client] = self._is_listed(client)
        return is_blocked

    def refuses_key(self, thumbprint: str) -> bool:
        """Return whether the key with this thumbprint is blocked."""
        return thumbprint in self._keys

    async def run(self) -> None:
        """Keep the copy up to date until cancelled."""
        with await self._blocklist.listen() as listener:
            while True:
                seconds = REFRESH_SECONDS
                with suppress(StoreUnavailable, CommandFailed):
                    seconds = await self.refresh()
                await listener.next(seconds)

    async def refresh(self) -> float:
        """Read the list. Return in how many seconds at most it must be read again. Raises StoreUnavailable."""
        blocked, now = await self._blocklist.read()
        prefixes: dict[tuple[int, int], set[int]] = {}
        self._keys = frozenset(each for each in blocked if isinstance(each, str))
        for network in blocked:
            if isinstance(network, str):
                continue
            kind = network.version, network.prefixlen
            prefixes.setdefault(kind, set()).add(_prefix(network, network.prefixlen))
        self._prefixes = {kind: frozenset(numbers) for kind, numbers in prefixes.items()}
        self._remembered.clear()
        next_end = min((block.until for block in blocked.values() if block.until is not None), default=math.inf)
        return min(REFRESH_SECONDS, max(0.01, (next_end - now) / 1000))

    def _is_listed(self, client: str) -> bool:
        try:
            network = ipaddress.ip_network(client)
        except ValueError:  # a peer on a unix socket has no address
            return False
        return any(
            version == network.version and length <= network.prefixlen and _prefix(network, length) in prefixes
            for (version, length), prefixes in self._prefixes.items()
        )


def _prefix(network: Network, length: int) -> int:
    """Return the first `length` bits of a network's address, as an integer."""
    return int(network.network_address) >> (network.max_prefixlen - length)
