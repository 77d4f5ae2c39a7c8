"""What one receiver may cost: a rate, and a breaker that opens when it keeps failing (DESIGN 8).

Both are in Redis, under the host's name, so that they hold over all workers.
"""

from typing import cast

from node.config import Limit
from node.store import Store, keys
from node.store.limits import window
from node.store.scripts import script

ADMIT = script("callback_admit")
FAILED = script("callback_failed")

FAILURES = 5
"""Failures in a row that open the breaker."""

FIRST_OPEN_MS = 60_000
LONGEST_OPEN_MS = 30 * 60_000

PROBE_MS = 15_000
"""For how long nobody else calls a host whose breaker was open: longer than an attempt may last."""

MEMORY_MS = 6 * 3600_000
"""How long failures in a row are remembered."""


class Breaker:
    """Says whether a host may be called now."""

    def __init__(self, store: Store, limit: Limit) -> None:
        """`limit`: messages to one host."""
        self._store = store
        self._limit = limit

    async def wait(self, host: str) -> int:
        """Milliseconds until the host may be called; 0 = now, and that counts. Raises StoreUnavailable."""
        rate = keys.rate(keys.partition_of(host), "callback", host)
        reply = await self._store.run(ADMIT, [*_state(host), rate], [*window(self._limit), FAILURES, PROBE_MS])
        _, wait = cast("tuple[bytes, int]", reply)
        return wait

    async def succeeded(self, host: str) -> None:
        """The host works: forget its failures. Raises StoreUnavailable."""
        await self._store.command("DEL", *_state(host))

    async def failed(self, host: str) -> None:
        """Count a failure; from the fifth in a row on, stay away, twice as long each time. Raises StoreUnavailable."""
        await self._store.run(FAILED, _state(host), [FAILURES, FIRST_OPEN_MS, LONGEST_OPEN_MS, MEMORY_MS])


def _state(host: str) -> list[str]:
    """Whether the breaker is open, and the failures in a row."""
    partition = keys.partition_of(host)
    return [keys.rate(partition, "callback-open", host), keys.rate(partition, "callback-failures", host)]
