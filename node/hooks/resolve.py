"""Names to addresses: the resolver of the delivery process, and the look-up when a URL is given.

What a resolved address means for a connection is `guard.py`; a look-up here is a courtesy to
whoever gives a URL, since the answer may be another one by the time of the call.
"""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Protocol

from node.hooks.addresses import Address
from node.hooks.target import Policy, Target, TargetRefused

DELIVERY_TIMEOUT = 2.0  # seconds a look-up may take before a call
ACCEPT_TIMEOUT = 1.0  # seconds it may take while someone waits for an acknowledgement
THREADS = 4  # look-ups under way at once; a stuck one keeps its thread


class NotResolved(Exception):
    """A name has no address, or none was learnt in time."""


class Resolver(Protocol):
    """Finds all addresses of a name, in the order in which to try them."""

    async def __call__(self, host: str) -> Sequence[Address]:
        """Raises NotResolved."""
        ...


class SystemResolver:
    """getaddrinfo, on threads of its own: slow names must not hold up what else runs on threads."""

    def __init__(self, threads: int = THREADS) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="resolve")

    async def __call__(self, host: str) -> Sequence[Address]:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._pool, _look_up, host)
        except OSError as error:
            raise NotResolved(f"{host} has no address") from error
        return found

    def close(self) -> None:
        """Give up what is under way and let the threads end."""
        self._pool.shutdown(wait=False, cancel_futures=True)


async def resolve(host: str, resolver: Resolver, timeout: float) -> Sequence[Address]:
    """All addresses of a name, at least one. Raises NotResolved."""
    try:
        async with asyncio.timeout(timeout):
            addresses = await resolver(host)
    except TimeoutError as error:
        raise NotResolved(f"{host} was not resolved within {timeout:g} s") from error
    if not addresses:
        raise NotResolved(f"{host} has no address")
    return addresses


async def check_name(target: Target, policy: Policy, resolver: Resolver, timeout: float = ACCEPT_TIMEOUT) -> None:
    """Refuse a target whose name has an address that is not public.

    A name that does not resolve now is let pass: the guard looks again at every call. Raises
    TargetRefused.
    """
    if target.address is not None:
        return
    try:
        addresses = await resolve(target.host, resolver, timeout)
    except NotResolved:
        return
    if not all(policy.allows(address) for address in addresses):
        raise TargetRefused("private", "the host has an address that is not public")


def _look_up(host: str) -> list[Address]:
    # As bytes: a text would be put through Python's own IDNA first.
    answers = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ip_address(answer[4][0]) for answer in answers))
