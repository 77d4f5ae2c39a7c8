"""What may be called now: rates, the shares that publishers have of them, and breakers (DESIGN 8).

What HTTP says is held against one URL, since the tenants of a host are strangers to each other; that nobody takes a
connection, against one address and port. Rates are those of a host and of a network, since one machine may have any
number of names, and of the client that asked for the callbacks. All of it is in Redis, so that it holds over all
workers.
"""

from functools import lru_cache
from ipaddress import ip_network
from typing import cast

from node.callbacks.addresses import Address
from node.callbacks.publisher import site_part
from node.callbacks.target import Target
from node.config import Limit
from node.share.site import SITE_SHARE
from node.store import Store, ids, keys
from node.store.limits import window
from node.store.scripts import script

ADMIT = script("callback_admit")
ALLOW = script("callback_allow")
FAILED = script("callback_failed")

FAILURES = 5
"""Failures in a row that open the breaker."""

FIRST_OPEN_MS = 60_000
LONGEST_OPEN_MS = 30 * 60_000

PROBE_MS = 15_000
"""For how long nobody else calls what the breaker was open for: longer than an attempt may last."""

MEMORY_MS = 6 * 3600_000
"""How long failures in a row are remembered."""

NETWORK_BITS = {4: 24, 6: 64}
"""Of an address that is called: who has one in such a network mostly has others in it."""

NO_LIMIT = Limit(0, 1)


class NotNow(Exception):
    """It may not be called before some time has passed."""

    def __init__(self, wait_ms: int) -> None:
        super().__init__(f"not for another {wait_ms} ms")
        self.wait_ms = wait_ms


class Breaker:
    """Says whether something may be called now, and is told what came of it.

    What has a breaker is a `name`; what shares a rate is a `pool`, by default the same.
    """

    def __init__(self, store: Store, limit: Limit, client_limit: Limit = NO_LIMIT) -> None:
        """`limit`: messages to one pool; `client_limit`: attempts on behalf of one client."""
        self._store = store
        self._limit = limit
        self._client_limit = client_limit

    async def allow(self, publisher: str) -> None:
        """Count an attempt on behalf of a client, whatever comes of it. Raises NotNow, StoreUnavailable."""
        if not self._client_limit.count or not self._limit.count:  # who takes the one away wants no other
            return
        site = site_part(publisher)
        partition = ids.partition_of(site)
        places = [
            keys.rate(partition, "callback-site", site),
            keys.rate(partition, "callback-client", publisher),
            keys.rate(partition, "callback-client-turns", publisher),
        ]
        most, milliseconds = window(self._client_limit)
        _judge(await self._store.run(ALLOW, places, [self._client_limit.count * SITE_SHARE, milliseconds, most]))

    async def admit(self, name: str, pool: str = "", site: str = "") -> bool:
        """Count a call of `name` on behalf of a site; whether it has failed since it last worked.

        Raises NotNow, StoreUnavailable.
        """
        pool = pool or name
        partition = ids.partition_of(pool)
        places = [
            *_state(name, pool),
            keys.rate(partition, "callback", pool),
            keys.rate(partition, "callback-of", f"{pool}:{site}"),
            keys.rate(partition, "callback-turns", f"{pool}:{site}"),
        ]
        return _judge(await self._store.run(ADMIT, places, [*window(self._limit), FAILURES, PROBE_MS])) > 0

    async def succeeded(self, name: str, pool: str = "") -> None:
        """It works: forget its failures. Raises StoreUnavailable."""
        await self._store.command("DEL", *_state(name, pool or name))

    async def failed(self, name: str, pool: str = "") -> None:
        """Count a failure; from the fifth in a row on, stay away, twice as long each time. Raises StoreUnavailable."""
        times = [FAILURES, FIRST_OPEN_MS, LONGEST_OPEN_MS, MEMORY_MS]
        await self._store.run(FAILED, _state(name, pool or name), times)

    async def pause(self, name: str, pool: str, seconds: float) -> None:
        """It asks to be left alone for a while, which is no failure. Raises StoreUnavailable."""
        milliseconds = min(round(seconds * 1000), LONGEST_OPEN_MS)
        if milliseconds > 0:
            is_open, _ = _state(name, pool)
            await self._store.command("SET", is_open, "open", "PX", milliseconds)


class Dials:
    """What is known of the addresses that connections are made to."""

    def __init__(self, breaker: Breaker) -> None:
        self._breaker = breaker

    async def admit(self, address: Address, port: int, site: str) -> bool:
        """Count a connection; whether one has failed since one was last made. Raises NotNow, StoreUnavailable."""
        return await self._breaker.admit(*_dialled(address, port), site)

    async def succeeded(self, address: Address, port: int) -> None:
        """Somebody took the connection. Raises StoreUnavailable."""
        await self._breaker.succeeded(*_dialled(address, port))

    async def failed(self, address: Address, port: int) -> None:
        """Nobody did. Raises StoreUnavailable."""
        await self._breaker.failed(*_dialled(address, port))


def called(target: Target) -> tuple[str, str]:
    """Name and pool of a URL."""
    return ids.digest(target.url), target.host


@lru_cache(maxsize=4096)
def _dialled(address: Address, port: int) -> tuple[str, str]:
    """Name and pool of an address."""
    network = ip_network((address, NETWORK_BITS[address.version]), strict=False)
    return f"{address}:{port}", str(network)


def _state(name: str, pool: str) -> list[str]:
    """Whether the breaker is open, and the failures in a row."""
    partition = ids.partition_of(pool)
    return [keys.rate(partition, "callback-open", name), keys.rate(partition, "callback-failures", name)]


def _judge(reply: object) -> int:
    """The number that comes with leave to call. Raises NotNow."""
    verdict, number = cast("tuple[bytes, int]", tuple(cast("list[object]", reply)))
    if verdict == b"wait":
        raise NotNow(number)
    return number
