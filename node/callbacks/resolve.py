"""Resolves names to addresses: look-ups that take turns, and the check of a URL's name when a client gives the URL.

A look-up takes no thread, but one that nobody answers holds a place for two seconds. Places are given in turn to
registrable domains and to the sites of publishers, so that the slow names of one of them only delay each other.
`guard.py` decides what an address means for a connection: by the time of the call, the answer may be another one.
"""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from time import monotonic
from typing import Generic, Protocol, TypeVar

from node.callbacks.lookup import Lookup, LookupResult, NotLookedUp, NotResolved
from node.callbacks.owners import registrable
from node.callbacks.target import Target, TargetPolicy, TargetRefused
from node.config.values import Address
from node.share.fair_semaphore import FairSemaphore, QueueFull

TURN_SECONDS = 1.0
"""Longest wait of a look-up for its place, in seconds."""

ACCEPT_TIMEOUT = 1.0
"""Seconds for a look-up while a client waits for the acknowledgement."""

PLACES = 64
"""Look-ups at the same time in this process. Each uses two sockets."""

PLACES_EACH_DOMAIN = 8
PLACES_EACH_SITE = 4
"""For the clients of one site together. Fewer than PLACES_EACH_DOMAIN, so that one site does not take all places of a
domain that others name, too."""

WAITING_EACH = 64
"""Look-ups of one site, or below one domain, that may wait for a place. More would not get one in time."""

MAX_KEEP_SECONDS = 30.0
"""Longest time for which an answer is kept, in seconds; its own TTL applies if that is shorter. So a burst of callbacks
to one host causes one look-up."""

KEEP_FAILURE_SECONDS = 10.0
"""Seconds for which it is remembered that a name has no address, or that its servers do not answer."""

NAMES_KEPT = 4096
"""Maximum number of names kept that resolved, and of names kept that did not. The oldest is dropped first."""

T = TypeVar("T")


class Resolver(Protocol):
    """Finds all addresses of a name, at least one, in the order in which to try them."""

    async def __call__(self, host: str, site: str = "") -> Sequence[Address]:
        """`site`: on whose behalf. Ends soon enough for a call to follow. Raises NotResolved."""
        ...


class _Kept(Generic[T]):
    """Results of look-ups, each kept for its own time."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[float, T]] = {}
        """Each value with the monotonic time until which it is valid, in the order of insertion."""

    def get(self, host: str) -> T | None:
        until, value = self._entries.get(host, (0.0, None))
        return value if until > monotonic() else None

    def put(self, host: str, value: T, seconds: float) -> None:
        self._entries.pop(host, None)
        if len(self._entries) >= NAMES_KEPT:
            del self._entries[next(iter(self._entries))]
        self._entries[host] = (monotonic() + seconds, value)


class SystemResolver:
    """Looks up names. Simultaneous requests for one name share a look-up, and its answer is kept for a short while."""

    def __init__(self, lookup: Lookup | None = None) -> None:
        self._lookup = lookup or Lookup()
        self._domains = FairSemaphore(PLACES, each=PLACES_EACH_DOMAIN, waiting=WAITING_EACH)
        self._sites = FairSemaphore(sys.maxsize, each=PLACES_EACH_SITE, waiting=WAITING_EACH)
        self._under_way: dict[str, asyncio.Task[LookupResult | NotResolved]] = {}
        self._found = _Kept[Sequence[Address]]()
        self._failed = _Kept[str]()

    async def __call__(self, host: str, site: str = "") -> Sequence[Address]:
        if (known := self._known(host)) is not None:
            return known
        look_up = self._under_way.get(host)
        if look_up is None:
            async with AsyncExitStack() as places:
                await self._turn(places, host, site)
                # Somebody else may have begun or even finished the look-up in the meantime.
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
        """Return the addresses, if they are kept. Raises NotResolved if a failure is kept."""
        if reason := self._failed.get(host):
            raise NotResolved(reason)
        return self._found.get(host)

    async def _turn(self, places: AsyncExitStack, host: str, site: str) -> None:
        """Wait for a place, and add it to `places`, which frees it at its end. Raises NotLookedUp."""
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await places.enter_async_context(self._sites.of(site))
                await places.enter_async_context(self._domains.of(registrable(host)))
        except (TimeoutError, QueueFull) as error:
            raise NotLookedUp(f"{host} had to wait too long for others") from error

    async def _look_up(self, host: str, places: AsyncExitStack) -> LookupResult | NotResolved:
        """Return the result, for all who wait. The places are held until the look-up ends, even if nobody waits."""
        async with places:
            try:
                found = await self._lookup(host)
            except NotResolved as failure:
                if not isinstance(failure, NotLookedUp):
                    self._failed.put(host, str(failure), KEEP_FAILURE_SECONDS)
                return failure
            finally:
                del self._under_way[host]
            self._found.put(host, found.addresses, min(found.ttl, MAX_KEEP_SECONDS))
            return found


async def check_name(target: Target, policy: TargetPolicy, resolver: Resolver, site: str = "") -> None:
    """Raise TargetRefused if the name of a target has an address that is not public.

    A name that does not resolve within ACCEPT_TIMEOUT passes, since the guard looks again at every call.
    """
    if target.address is not None:
        return
    try:
        async with asyncio.timeout(ACCEPT_TIMEOUT):
            addresses = await resolver(target.host, site)
    except (NotResolved, TimeoutError):
        return
    if not all(policy.allows(address) for address in addresses):
        raise TargetRefused("private", "the host has an address that is not public")
