"""What may be called now: rate limits, each publisher's share of them, and circuit breakers (DESIGN 8).

What a receiver answers is held against its URL alone, since the tenants of one host are strangers to each other. That
nobody accepts a connection is held against the address and port. Rates are counted for a host and for a network, as one
machine may have any number of names, and for the client that asked for the callbacks. All of this is in Redis, so that
it holds for all workers together.
"""

from functools import lru_cache
from ipaddress import ip_network
from typing import cast

from node.callbacks.attempt import AttemptResult, Retry, Throttled, Unreachable
from node.callbacks.owners import site_part
from node.callbacks.target import Target
from node.config import Limit
from node.config.values import Address
from node.share.site import SITE_SHARE
from node.store import Store, ids, keys
from node.store.steps import Key, step

FAILURES = 5
"""Failures in a row that open the breaker."""

FIRST_OPEN_MS = 60_000
"""How long it is open at first; this doubles with each further failure."""

LONGEST_OPEN_MS = 30 * 60_000

PROBE_MS = 15_000
"""After it was open, one call probes. No other call is made for this long, which is longer than an attempt may last."""

MEMORY_MS = 6 * 3600_000
"""How long failures in a row are remembered."""

NETWORK_BITS = {4: 24, 6: 64}
"""Prefix of the network that an address is counted for, by IP version: whoever has one address in it may have more."""

NO_LIMIT = Limit(0, 1)


@step
def callback_admit(
    *,
    open: Key,  # noqa: A002 - the script's word
    failures: Key,
    rate: Key,
    own: Key,
    turns: Key,
    count: int,
    window: int,
    tolerated: int,
    probe: int,
) -> None:
    """Counts a call of a URL or an address, or says how long it has to wait."""


@step
def callback_allow(*, site: Key, own: Key, turns: Key, count: int, window: int, most: int) -> None:
    """Counts an attempt on behalf of a client, or says how long it has to wait."""


@step
def callback_failed(
    *,
    open: Key,  # noqa: A002 - the script's word
    failures: Key,
    tolerated: int,
    first: int,
    longest: int,
    memory: int,
) -> None:
    """Counts a failure of a URL or an address."""


@step
def callback_pause(*, open: Key, pause: int) -> None:  # noqa: A002 - the script's word
    """Opens a breaker because the receiver asks for a pause."""


class NotNow(Exception):
    """Something may not be called before some time has passed."""

    def __init__(self, wait_ms: int) -> None:
        super().__init__(f"not for another {wait_ms} ms")
        self.wait_ms = wait_ms


class Breaker:
    """Says whether something may be called now, and is told how calls ended.

    A breaker belongs to a `name`, such as a URL. Names with the same `pool`, such as its host, share a rate limit.
    """

    def __init__(self, store: Store, limit: Limit, client_limit: Limit = NO_LIMIT) -> None:
        """`limit`: calls of one pool; `client_limit`: attempts on behalf of one client."""
        self._store = store
        self.change(limit, client_limit)

    def change(self, limit: Limit, client_limit: Limit = NO_LIMIT) -> None:
        """Apply these limits from now on."""
        self._limit = limit
        self._client_limit = client_limit

    async def allow(self, publisher: str) -> None:
        """Count an attempt on behalf of a client, however it ends. Raises NotNow, StoreUnavailable."""
        limit = self._client_limit
        if not limit.count or not self._limit.count:  # an operator who has lifted the other limit wants none here
            return
        site = site_part(publisher)
        partition = ids.partition_of(site)
        allowing = callback_allow(
            site=keys.rate(partition, "callback-site", site),
            own=keys.rate(partition, "callback-client", publisher),
            turns=keys.rate(partition, "callback-client-turns", publisher),
            count=limit.count * SITE_SHARE,
            window=limit.milliseconds,
            most=limit.count,
        )
        _judge(await self._store.run(allowing))

    async def admit(self, name: str, pool: str, site: str) -> bool:
        """Count a call of `name` on behalf of a site. Returns whether it has failed since it last worked.

        Raises NotNow, StoreUnavailable.
        """
        partition = ids.partition_of(pool)
        is_open, failures = _state(name, pool)
        admitting = callback_admit(
            open=is_open,
            failures=failures,
            rate=keys.rate(partition, "callback", pool),
            own=keys.rate(partition, "callback-of", f"{pool}:{site}"),
            turns=keys.rate(partition, "callback-turns", f"{pool}:{site}"),
            count=self._limit.count,
            window=self._limit.milliseconds,
            tolerated=FAILURES,
            probe=PROBE_MS,
        )
        return _judge(await self._store.run(admitting)) > 0

    async def succeeded(self, name: str, pool: str) -> None:
        """Forget the failures of `name`: it works. Raises StoreUnavailable."""
        await self._store.command("DEL", *_state(name, pool))

    async def failed(self, name: str, pool: str) -> None:
        """Count a failure. The fifth in a row opens the breaker, and each one after it for twice as long.

        Raises StoreUnavailable.
        """
        is_open, failures = _state(name, pool)
        failing = callback_failed(
            open=is_open,
            failures=failures,
            tolerated=FAILURES,
            first=FIRST_OPEN_MS,
            longest=LONGEST_OPEN_MS,
            memory=MEMORY_MS,
        )
        await self._store.run(failing)

    async def pause(self, name: str, pool: str, seconds: float) -> None:
        """Open the breaker without a failure: the receiver has asked for a pause. One that is open for longer stays so.

        Raises StoreUnavailable.
        """
        milliseconds = min(round(seconds * 1000), LONGEST_OPEN_MS)
        if milliseconds > 0:
            is_open, _ = _state(name, pool)
            await self._store.run(callback_pause(open=is_open, pause=milliseconds))

    async def note(self, target: Target, result: AttemptResult, *, works: bool) -> None:
        """Note how a call of a URL ended; the guard does so for the address. Raises StoreUnavailable.

        `works`: whether to forget its failures, unless the result is one. The caller knows what shows that a URL works.
        """
        breaker = breaker_of(target)
        match result:
            case Throttled(_, after):
                await self.pause(*breaker, after or 0.0)
            case Retry() if not isinstance(result, Unreachable):
                await self.failed(*breaker)
            case _ if works:
                await self.succeeded(*breaker)
            case _:
                pass


class Dials:
    """The breakers of the addresses that connections are made to."""

    def __init__(self, breaker: Breaker) -> None:
        self._breaker = breaker

    async def admit(self, address: Address, port: int, site: str) -> bool:
        """Count a dial on behalf of a site. Returns whether one has failed since a connection was last accepted.

        Raises NotNow, StoreUnavailable.
        """
        return await self._breaker.admit(*_breaker_of_address(address, port), site)

    async def succeeded(self, address: Address, port: int) -> None:
        """The connection was accepted. Raises StoreUnavailable."""
        await self._breaker.succeeded(*_breaker_of_address(address, port))

    async def failed(self, address: Address, port: int) -> None:
        """Nobody accepted the connection. Raises StoreUnavailable."""
        await self._breaker.failed(*_breaker_of_address(address, port))


def breaker_of(target: Target) -> tuple[str, str]:
    """Name and pool of the breaker of a URL."""
    return ids.digest(target.url), target.host


@lru_cache(maxsize=4096)
def _breaker_of_address(address: Address, port: int) -> tuple[str, str]:
    """Name and pool of the breaker of an address."""
    network = ip_network((address, NETWORK_BITS[address.version]), strict=False)
    return f"{address}:{port}", str(network)


def _state(name: str, pool: str) -> tuple[Key, Key]:
    """The keys of a breaker: one that exists while it is open, and one that counts failures in a row."""
    partition = ids.partition_of(pool)
    return keys.rate(partition, "callback-open", name), keys.rate(partition, "callback-failures", name)


def _judge(reply: object) -> int:
    """The number that comes with a script's permission to call. Raises NotNow."""
    verdict, number = cast("tuple[bytes, int]", tuple(cast("list[object]", reply)))
    if verdict == b"wait":
        raise NotNow(number)
    return number
