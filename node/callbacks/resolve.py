"""Names to addresses: look-ups that take turns, and the look-up when a URL is given.

A look-up holds no thread, and one that nobody answers holds a place for two seconds. The places are given in turn to
registrable domains and to publishers, so that many slow names of one of them wait for each other. What a resolved
address means for a connection is `guard.py`; a look-up when a URL is given is a courtesy, since the answer may be
another one by the time of the call.
"""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from ipaddress import ip_address
from time import monotonic
from typing import Generic, Protocol, TypeVar

from node.callbacks.addresses import Address
from node.callbacks.lookup import LIFETIME, Lookup, LookupResult, NotLookedUp, NotResolved
from node.callbacks.owners import registrable
from node.callbacks.target import Policy, Target, TargetRefused
from node.share.turns import Crowded, Turns

TURN = 1.0  # seconds that a look-up waits for its turn
DELIVERY_TIMEOUT = TURN + LIFETIME + 0.5  # seconds a look-up may take before a call; by then it has given up itself
ACCEPT_TIMEOUT = 1.0  # seconds it may take while someone waits for an acknowledgement

PLACES = 64
"""Look-ups under way in this process; each has two sockets."""

PLACES_EACH_DOMAIN = 8
PLACES_EACH_CLIENT = 4
"""Fewer than those of a domain, so that no client alone takes all of a domain that it shares with others."""

WAITING_EACH = 64
"""Look-ups of one client, or below one domain, that wait for a place; more would not get one in time."""

LONGEST_KEPT = 30.0
"""Seconds an answer is kept, if its own time to live is not shorter: a burst of callbacks to one host asks once."""

FAILURE_KEPT = 10.0
"""Seconds for which a name is known to have no address, or to have servers that do not answer."""

NAMES_KEPT = 4096
"""Of each sort, those that resolved and those that did not; the oldest gives way."""


T = TypeVar("T")


class Resolver(Protocol):
    """Finds all addresses of a name, in the order in which to try them."""

    async def __call__(self, host: str, client: str = "") -> Sequence[Address]:
        """`client`: on whose behalf. Raises NotResolved."""
        ...


class _Kept(Generic[T]):
    """What was learnt of names, each for its time."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[float, T]] = {}
        """Each with the time until which it holds; the one that was put last is the last."""

    def get(self, host: str) -> T | None:
        until, value = self._entries.get(host, (0.0, None))
        return value if until > monotonic() else None

    def put(self, host: str, value: T, seconds: float) -> None:
        self._entries.pop(host, None)
        if len(self._entries) >= NAMES_KEPT:
            del self._entries[next(iter(self._entries))]
        self._entries[host] = (monotonic() + seconds, value)


class SystemResolver:
    """What the machine says of names, asked once for all who ask at the same time, and kept for a short while."""

    def __init__(self, lookup: Lookup | None = None) -> None:
        self._lookup = lookup or Lookup()
        self._domains = Turns(PLACES, each=PLACES_EACH_DOMAIN, waiting=WAITING_EACH)
        self._clients = Turns(sys.maxsize, each=PLACES_EACH_CLIENT, waiting=WAITING_EACH)
        self._under_way: dict[str, asyncio.Task[LookupResult | NotResolved]] = {}
        self._found = _Kept[Sequence[Address]]()
        self._failed = _Kept[str]()

    async def __call__(self, host: str, client: str = "") -> Sequence[Address]:
        try:
            return [ip_address(host)]
        except ValueError:
            pass
        if (known := self._known(host)) is not None:
            return known
        look_up = self._under_way.get(host)
        if look_up is None:
            async with AsyncExitStack() as places:
                await self._turn(places, host, client)
                # Meanwhile somebody else may have asked, or even learnt it.
                if (known := self._known(host)) is not None:
                    return known
                look_up = self._under_way.get(host)
                if look_up is None:
                    look_up = asyncio.create_task(self._look_up(host, places.pop_all()))
                    self._under_way[host] = look_up
        found = await asyncio.shield(look_up)
        if isinstance(found, NotResolved):
            raise type(found)(*found.args)
        return found.addresses

    def _known(self, host: str) -> Sequence[Address] | None:
        """The addresses that are kept. Raises NotResolved if it is kept that there are none."""
        if reason := self._failed.get(host):
            raise NotResolved(reason)
        return self._found.get(host)

    async def _turn(self, places: AsyncExitStack, host: str, client: str) -> None:
        """Wait for a place, and hold it as long as `places` does. Raises NotLookedUp."""
        try:
            async with asyncio.timeout(TURN):
                await places.enter_async_context(self._clients.of(client))
                await places.enter_async_context(self._domains.of(registrable(host)))
        except (TimeoutError, Crowded) as error:
            raise NotLookedUp(f"{host} had to wait too long for others") from error

    async def _look_up(self, host: str, places: AsyncExitStack) -> LookupResult | NotResolved:
        """What came of it, for all who wait. The places are held until it has ended, whoever still waits."""
        async with places:
            try:
                found = await self._lookup(host)
            except NotResolved as failure:
                if not isinstance(failure, NotLookedUp):
                    self._failed.put(host, str(failure), FAILURE_KEPT)
                return failure
            finally:
                del self._under_way[host]
            self._found.put(host, found.addresses, min(found.ttl, LONGEST_KEPT))
            return found


async def resolve(host: str, resolver: Resolver, timeout: float, client: str = "") -> Sequence[Address]:
    """All addresses of a name, at least one. Raises NotResolved."""
    try:
        async with asyncio.timeout(timeout):
            addresses = await resolver(host, client)
    except TimeoutError as error:
        raise NotResolved(f"{host} was not resolved within {timeout:g} s") from error
    if not addresses:
        raise NotResolved(f"{host} has no address")
    return addresses


async def check_name(
    target: Target, policy: Policy, resolver: Resolver, timeout: float = ACCEPT_TIMEOUT, client: str = ""
) -> None:
    """Refuse a target whose name has an address that is not public.

    A name that does not resolve now is let pass: the guard looks again at every call. Raises
    TargetRefused.
    """
    if target.address is not None:
        return
    try:
        addresses = await resolve(target.host, resolver, timeout, client)
    except NotResolved:
        return
    if not all(policy.allows(address) for address in addresses):
        raise TargetRefused("private", "the host has an address that is not public")
