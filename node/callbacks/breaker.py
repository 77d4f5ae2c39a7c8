"""What may be called now: rate limits, each publisher's share of them, and circuit breakers (DESIGN 8).

What a receiver answers is held against its URL alone, since the tenants of one host are strangers to each other, and
for the site alone that had it called: anybody may give the URL of another, and have it answer 500. That nobody accepts
a connection is held against the address and port, for all. Rates are counted for a host and for a network, as one
machine may have any number of names, and for the client that asked for the callbacks. All of this is in Redis, so that
it holds for all workers together.
"""

# The parameters have the names that the scripts' headers give them.
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
"""Failures in a row that open the breaker."""

FIRST_OPEN_MS = 60_000
"""How long it is open at first; this doubles with each further failure."""

MAX_OPEN_MS = 30 * 60_000

PROBE_MS = 15_000
"""After it was open, one call probes. No other call is made for this long, which is longer than an attempt may last."""

MEMORY_MS = 6 * 3600_000
"""How long failures in a row are remembered."""

MAX_TURN_MS = 3600_000
"""How long a call waits for its turn, at most. What would have to wait for longer has too many before it."""

NETWORK_BITS = {4: 24, 6: 64}
"""Prefix of the network that an address is counted for, by IP version: whoever has one address in it may have more."""


class ShareKeys(msgspec.Struct, frozen=True):
    """The keys of a rate that many share, as one of them sees it."""

    all: Key
    """When it was used by any of them."""
    own: Key
    """When it was used on behalf of that one."""
    waiting: Key
    """What waits on behalf of that one."""


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
    """Counts a call of a URL or an address, or says how long it has to wait."""


@step
def callback_allow(*, share: ShareKeys, id: str, limit: Limit, most: int, longest: int) -> None:
    """Counts an attempt on behalf of a client, or says how long it has to wait."""


@step
def callback_refund(*, share: ShareKeys, id: str, at: int, since: int, longest: int) -> None:
    """Refunds what was counted for a call that was not made."""


@step
def callback_failed(*, open: Key, failures: Key, tolerated: int, first: int, longest: int, memory: int) -> None:
    """Counts a failure of a URL or an address."""


@step
def callback_pause(*, open: Key, pause: int) -> None:
    """Opens a breaker because the receiver asks for a pause."""


class Admitted(msgspec.Struct, frozen=True):
    """A call that may be made, and was counted."""

    has_failed: bool
    """Whether one has failed since it last worked."""
    refund: Step | None
    """What to do if it is not made; None where nothing is counted."""


class Circuit(msgspec.Struct, frozen=True):
    """What has a breaker of its own: a URL as one site has it called, or an address and port."""

    name: str
    pool: str
    """What shares its rate limit: the host of the URL, the network of the address."""

    @property
    def partition(self) -> int:
        """Where its keys are."""
        return ids.partition_of(self.pool)

    @property
    def open(self) -> Key:
        """The key that exists while its breaker is open."""
        return keys.rate(self.partition, "callback-open", self.name)

    @property
    def failures(self) -> Key:
        """The key that counts its failures in a row."""
        return keys.rate(self.partition, "callback-failures", self.name)


class Breaker:
    """Says whether something may be called now, and is told how calls ended."""

    def __init__(self, store: Store, limit: Limit, client_limit: Limit = NO_LIMIT) -> None:
        """`limit`: calls of one pool; `client_limit`: attempts on behalf of one client."""
        self._store = store
        self.change(limit, client_limit)

    def change(self, limit: Limit, client_limit: Limit = NO_LIMIT) -> None:
        """Apply these limits from now on."""
        self._limit = limit
        self._client_limit = client_limit

    async def allow(self, requester: Requester) -> Admitted | Later:
        """Count an attempt on behalf of a client, however it ends. Raises StoreUnavailable."""
        limit = self._client_limit
        if not limit.count or not self._limit.count:  # an operator who has lifted the other limit wants none here
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
        """Count a call. Raises StoreUnavailable."""
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
        """Refund what was counted for a call that was not made. Raises StoreUnavailable."""
        await self._store.run_all([each.refund for each in admitted if each.refund])

    async def _counted(self, counting: Step, share: ShareKeys, requester: Requester) -> Admitted | Later:
        verdict, number, *counted = cast("list[Any]", await self._store.run(counting))
        if verdict == b"wait":
            return Later(number)
        at, since = counted
        refund = callback_refund(share=share, id=requester.id, at=at, since=since, longest=MAX_TURN_MS)
        return Admitted(has_failed=number > 0, refund=refund)

    async def succeeded(self, circuit: Circuit) -> None:
        """Forget the failures: it works. Raises StoreUnavailable."""
        await self._store.command("DEL", circuit.open, circuit.failures)

    async def failed(self, circuit: Circuit) -> None:
        """Count a failure. The fifth in a row opens the breaker, and each one after it for twice as long.

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
        """Open the breaker without a failure: the receiver has asked for a pause. One that is open for longer stays so.

        Raises StoreUnavailable.
        """
        await self._store.run(callback_pause(open=circuit.open, pause=min(round(seconds * 1000), MAX_OPEN_MS)))

    async def note(self, target: Target, requester: Requester, result: AttemptResult, *, works: bool) -> None:
        """Note how a call of a URL ended; the guard does so for the address. Raises StoreUnavailable.

        `works`: whether to forget its failures, unless the result is one. The caller knows what shows that a URL works.
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
    """The circuit of a URL for the site of a requester."""
    return Circuit(ids.digest(target.url, requester.site), target.host)


@lru_cache(maxsize=4096)
def circuit_of_address(address: Address, port: int) -> Circuit:
    """The circuit of an address that connections are made to."""
    network = ip_network((address, NETWORK_BITS[address.version]), strict=False)
    return Circuit(f"{address}:{port}", str(network))
