"""Decides what may be called now: rate limits, each publisher's share of them, and circuit breakers (DESIGN 8).

The answers of a receiver count only against its URL, because the tenants of one host are strangers to each other. They
count only for the site that had the URL called, because anybody may give another's URL and have it answer 500. A
connection that nobody accepts counts against the address and port, for all sites. Rates are counted for each host and
for each network, because one machine may have any number of names, and for each client that asked for callbacks. All of
this is in Redis, so that it holds for all workers together.
"""

# Parameters are named as in the headers of the scripts.
# ruff: noqa: A002

from functools import lru_cache
from ipaddress import ip_network
from typing import Any, cast

import msgspec

from node.callbacks.attempt import AttemptResult, Later, Retry, Throttled, Unreachable
from node.callbacks.owners import Requester
from node.callbacks.target import Target
from node.config import NO_LIMIT, Limit
from node.config.values import Address
from node.share.site import SITE_SHARE
from node.store import Store, ids, keys
from node.store.steps import Key, Step, step

FAILURES = 5
"""Consecutive failures that open the breaker."""

FIRST_OPEN_MS = 60_000
"""Milliseconds for which the breaker is open at first. Each further failure doubles the time, up to MAX_OPEN_MS."""

MAX_OPEN_MS = 30 * 60_000

PROBE_MS = 15_000
"""Milliseconds that a single probing call gets after the breaker was open. No other call is made during that time,
which is longer than the longest attempt."""

MEMORY_MS = 6 * 3600_000
"""Milliseconds for which consecutive failures are remembered."""

MAX_TURN_MS = 3600_000
"""Longest wait of a call for its turn, in milliseconds. A call that would have to wait longer has too many others
before it."""

NETWORK_BITS = {4: 24, 6: 64}
"""Prefix length, by IP version, of the network that a call of an address counts for: whoever has one address in a
network may have more."""


class ShareKeys(msgspec.Struct, frozen=True):
    """The keys of a rate limit that several parties share, for one of these parties."""

    all: Key
    """The times at which any party used it."""
    own: Key
    """The times at which this party used it."""
    waiting: Key
    """What waits on behalf of this party."""


@step
def callback_admit(
    *,
    open: Key,
    failures: Key,
    share: ShareKeys,
    blocked: Key,
    id: str,
    limit: Limit,
    longest: int,
    tolerated: int,
    probe: int,
) -> None:
    """Count a call of a URL or an address, or return how long it has to wait."""


@step
def callback_allow(*, share: ShareKeys, id: str, limit: Limit, most: int, longest: int) -> None:
    """Count an attempt on behalf of a client, or return how long it has to wait."""


@step
def callback_refund(*, share: ShareKeys, id: str, at: int, since: int, longest: int) -> None:
    """Refund what was counted for a call that was not made."""


@step
def callback_failed(*, open: Key, failures: Key, tolerated: int, first: int, longest: int, memory: int) -> None:
    """Count a failure of a URL or an address."""


@step
def callback_pause(*, open: Key, pause: int) -> None:
    """Open a breaker because the receiver asks for a pause."""


class Admitted(msgspec.Struct, frozen=True):
    """A call that may be made, and is already counted."""

    has_failed: bool
    """Whether a call of the same URL or address has failed since the last one that worked."""
    refund: Step | None
    """The step to run if the call is not made; None where nothing is counted."""


class Circuit(msgspec.Struct, frozen=True):
    """A unit with its own breaker: a URL as called on behalf of one site, or an address and port."""

    name: str
    pool: str
    """What shares one rate limit: the host of a URL, or the network of an address."""

    @property
    def partition(self) -> int:
        """The partition of its keys."""
        return ids.partition_of(self.pool)

    @property
    def open(self) -> Key:
        """The key that exists while its breaker is open or a call probes."""
        return keys.rate(self.partition, "callback-open", self.name)

    @property
    def failures(self) -> Key:
        """The key that counts its consecutive failures."""
        return keys.rate(self.partition, "callback-failures", self.name)


class Breaker:
    """Decides whether a call may be made now, and records how calls ended."""

    def __init__(self, store: Store, limit: Limit, client_limit: Limit = NO_LIMIT) -> None:
        """`limit`: calls of one pool; `client_limit`: attempts on behalf of one client."""
        self._store = store
        self.change(limit, client_limit)

    def change(self, limit: Limit, client_limit: Limit = NO_LIMIT) -> None:
        """Apply these limits from now on."""
        self._limit = limit
        self._client_limit = client_limit

    async def allow(self, requester: Requester) -> Admitted | Later:
        """Count an attempt on behalf of a client, whether it succeeds or not; Later if it has to wait. Raises
        StoreUnavailable.
        """
        limit = self._client_limit
        if not limit.count or not self._limit.count:  # an operator who lifts the other limit wants none here
            return Admitted(has_failed=False, refund=None)
        client, partition = requester.publisher, ids.partition_of(requester.site)
        share = ShareKeys(
            all=keys.rate(partition, "callback-site", requester.site),
            own=keys.rate(partition, "callback-client", client),
            waiting=keys.rate(partition, "callback-client-waiting", client),
        )
        allowing = callback_allow(
            share=share,
            id=requester.id,
            limit=Limit(limit.count * SITE_SHARE, limit.seconds),
            most=limit.count,
            longest=MAX_TURN_MS,
        )
        return await self._counted(allowing, share, requester)

    async def admit(self, circuit: Circuit, requester: Requester) -> Admitted | Later:
        """Count a call of a URL or an address; Later if it has to wait. Raises StoreUnavailable."""
        partition, name = circuit.partition, f"{circuit.pool}:{requester.site}"
        share = ShareKeys(
            all=keys.rate(partition, "callback", circuit.pool),
            own=keys.rate(partition, "callback-of", name),
            waiting=keys.rate(partition, "callback-waiting", name),
        )
        admitting = callback_admit(
            open=circuit.open,
            failures=circuit.failures,
            share=share,
            blocked=keys.rate(partition, "callback-blocked", f"{circuit.name}:{requester.site}"),
            id=requester.id,
            limit=self._limit,
            longest=MAX_TURN_MS,
            tolerated=FAILURES,
            probe=PROBE_MS,
        )
        return await self._counted(admitting, share, requester)

    async def refund(self, *admitted: Admitted) -> None:
        """Refund what was counted for calls that were not made. Raises StoreUnavailable."""
        await self._store.run_all([each.refund for each in admitted if each.refund])

    async def _counted(self, counting: Step, share: ShareKeys, requester: Requester) -> Admitted | Later:
        verdict, number, *counted = cast("list[Any]", await self._store.run(counting))
        if verdict == b"wait":
            return Later(number)
        at, since = counted
        refund = callback_refund(share=share, id=requester.id, at=at, since=since, longest=MAX_TURN_MS)
        return Admitted(has_failed=number > 0, refund=refund)

    async def succeeded(self, circuit: Circuit) -> None:
        """Close the breaker and forget the failures, because a call worked. Raises StoreUnavailable."""
        await self._store.command("DEL", circuit.open, circuit.failures)

    async def failed(self, circuit: Circuit) -> None:
        """Count a failure. The fifth consecutive one opens the breaker; each one after it opens it for twice as long.

        Raises StoreUnavailable.
        """
        failing = callback_failed(
            open=circuit.open,
            failures=circuit.failures,
            tolerated=FAILURES,
            first=FIRST_OPEN_MS,
            longest=MAX_OPEN_MS,
            memory=MEMORY_MS,
        )
        await self._store.run(failing)

    async def pause(self, circuit: Circuit, seconds: float) -> None:
        """Open the breaker for `seconds`, up to MAX_OPEN_MS, without counting a failure: the receiver asked for a
        pause.

        A breaker that is already open for longer stays so. Raises StoreUnavailable.
        """
        await self._store.run(callback_pause(open=circuit.open, pause=min(round(seconds * 1000), MAX_OPEN_MS)))

    async def note(self, target: Target, requester: Requester, result: AttemptResult, *, works: bool) -> None:
        """Record how a call of a URL ended; the guard does the same for the address. Raises StoreUnavailable.

        `works`: whether to forget the failures of the URL, unless this result is itself a failure. The caller knows
        which results show that a URL works.
        """
        circuit = circuit_of(target, requester)
        match result:
            case Throttled(_, after):
                await self.pause(circuit, after or 0.0)
            case Retry() if not isinstance(result, Unreachable):
                await self.failed(circuit)
            case _ if works:
                await self.succeeded(circuit)
            case _:
                pass


def circuit_of(target: Target, requester: Requester) -> Circuit:
    """Return the circuit of a URL as called on behalf of the requester's site."""
    return Circuit(ids.digest(target.url, requester.site), target.host)


@lru_cache(maxsize=4096)
def circuit_of_address(address: Address, port: int) -> Circuit:
    """Return the circuit of an address and port that connections are made to."""
    network = ip_network((address, NETWORK_BITS[address.version]), strict=False)
    return Circuit(f"{address}:{port}", str(network))
