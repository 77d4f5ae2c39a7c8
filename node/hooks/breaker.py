"""What one receiver may cost: a rate, and a breaker that opens when it keeps failing (DESIGN 8).

Both are in Redis, under the host's name, so that they hold over all workers.
"""

from typing import cast

from node.config import Limit
from node.store import Store, keys
from node.store.limits import LimitStore

FAILURES = 5
"""Failures in a row that open the breaker."""

FIRST_OPEN_MS = 60_000
LONGEST_OPEN_MS = 30 * 60_000

MEMORY_MS = 6 * 3600_000
"""How long failures in a row are remembered."""


class Breaker:
    """Says whether a host may be called now."""

    def __init__(self, store: Store, limit: Limit) -> None:
        """`limit`: messages to one host."""
        self._store = store
        self._limit = limit
        self._limits = LimitStore(store)

    async def wait(self, host: str) -> int:
        """Milliseconds until the host may be called; 0 = now, and that counts. Raises StoreUnavailable."""
        left = cast("int", await self._store.command("PTTL", self._open(host)))
        if left > 0:
            return left
        taken = await self._limits.take("callback", host, self._limit)
        return 0 if taken.allowed else max(1, round(taken.reset * 1000))

    async def succeeded(self, host: str) -> None:
        """The host works: forget its failures. Raises StoreUnavailable."""
        await self._store.command("DEL", self._failures(host))

    async def failed(self, host: str) -> None:
        """Count a failure; from the fifth in a row on, stay away, twice as long each time. Raises StoreUnavailable."""
        failures = cast("int", await self._store.command("INCR", self._failures(host)))
        await self._store.command("PEXPIRE", self._failures(host), MEMORY_MS)
        if failures >= FAILURES:
            open_ms = min(FIRST_OPEN_MS << min(failures - FAILURES, 10), LONGEST_OPEN_MS)
            await self._store.command("SET", self._open(host), failures, "PX", open_ms)

    def _failures(self, host: str) -> str:
        return keys.rate(keys.partition_of(host), "callback-failures", host)

    def _open(self, host: str) -> str:
        return keys.rate(keys.partition_of(host), "callback-open", host)
