"""The only way to connect to an address that a stranger gave: checked addresses only, and a limited answer.

A name is resolved once, here. If any of its addresses is not allowed, no connection is made. Otherwise the checked
address is dialled, not the name, so that no later answer of the DNS can change the destination. TLS still checks the
certificate against the name. Each dial is counted for the network of the dialled address, whatever name led there.
"""

import ssl
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from ipaddress import ip_address
from typing import cast

import httpcore2
from httpcore2 import AsyncNetworkBackend, AsyncNetworkStream

from node.callbacks.attempt import Later, NotNow
from node.callbacks.breaker import Breaker, circuit_of_address
from node.callbacks.lookup import NotLookedUp, NotResolved
from node.callbacks.owners import Requester
from node.callbacks.resolve import Resolver
from node.callbacks.target import TargetPolicy, TargetRefused
from node.config.values import Address

MAX_DIALS = 2
"""Maximum number of addresses tried for one connection. If a host has both IPv6 and IPv4 addresses, one of each is
tried: usually one of them works. The look-up and both dials end within the ten seconds of an attempt
(`call.AttemptTimeouts`)."""

BUSY_MS = 2000
"""Milliseconds until another try if a host could not be looked up for a reason on this machine, such as no free
place."""

MAX_READ = 16 * 1024
"""Bytes of an answer, headers included, that are read unless the caller asks for more. The head may never be longer."""

PIECE_BYTES = 128
"""Minimum that each piece of an answer counts for, in bytes, because a piece that arrives by itself costs 0.1 ms:
13,000 header bytes, sent one at a time, took 1 s of a ten-second attempt, and held a place."""


class Guard(AsyncNetworkBackend):
    """A network backend that connects only to addresses that the policy allows, and only while they may be called."""

    def __init__(
        self,
        policy: TargetPolicy,
        resolver: Resolver,
        requester: Requester,
        breaker: Breaker,
        *,
        most: int = MAX_READ,
        dialler: AsyncNetworkBackend | None = None,
    ) -> None:
        """`breaker` counts dials and their failures. `most`: bytes of an answer that are read, its headers included;
        this limit applies once the head has come (`begin_body`).
        """
        self.is_unreachable = False
        """Whether addresses were dialled, and none of them accepted a connection."""
        self._policy = policy
        self._resolver = resolver
        self._requester = requester
        self._most = most
        self._allowed = _Allowed(min(most, MAX_READ))
        self._breaker = breaker
        # httpcore2 declares this class twice, once for machines without anyio.
        self._dialler = dialler or cast("AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        """Connect to an allowed address of `host`.

        Raises TargetRefused if the host has an address that is not allowed, NotNow if it may not be called now,
        httpcore2's ConnectError or ConnectTimeout if no connection is made, and StoreUnavailable. `timeout`, in
        seconds, applies to each dial.
        """
        failure: NotNow | httpcore2.ConnectError | httpcore2.ConnectTimeout | None = None
        for address in _to_dial(await self._addresses(host)):
            circuit = circuit_of_address(address, port)
            answer = await self._breaker.admit(circuit, self._requester)
            if isinstance(answer, Later):
                failure = failure or NotNow(answer.wait_ms)
                continue
            try:
                stream = await self._dialler.connect_tcp(str(address), port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure, self.is_unreachable = error, True
                await self._breaker.failed(circuit)
                continue
            self.is_unreachable = False
            async with AsyncExitStack() as cleanup:  # closes the connection if anything goes wrong below
                cleanup.push_async_callback(stream.aclose)
                _check_peer(stream, address)
                if answer.has_failed:
                    await self._breaker.succeeded(circuit)
                cleanup.pop_all()
            return _LimitedStream(stream, self._allowed)
        try:
            raise failure or httpcore2.ConnectError(f"{host} has no address")
        finally:
            failure = None  # its traceback refers to this frame, and through its callers' frames to the request

    def begin_body(self) -> None:
        """Raise the limit to `most`, now that the head of the answer has come.

        A longer head could be thousands of informational responses (1xx), which are parsed one by one.
        """
        self._allowed.most = self._most

    async def _addresses(self, host: str) -> Sequence[Address]:
        try:
            addresses: Sequence[Address] = [ip_address(host.strip("[]"))]
        except ValueError:
            try:
                addresses = await self._resolver(host, self._requester.site)
            except NotLookedUp as error:
                raise NotNow(BUSY_MS) from error
            except NotResolved as error:
                raise httpcore2.ConnectError(str(error)) from error
        if not all(self._policy.allows(address) for address in addresses):
            raise TargetRefused("private", "the host has an address that is not public")
        return addresses


def _check_peer(stream: AsyncNetworkStream, address: Address) -> None:
    """Raise TargetRefused unless the stream leads to the dialled address, ConnectError if it is already closed."""
    peer = stream.get_extra_info("server_addr")
    if not peer:  # the socket was reset in the meantime
        raise httpcore2.ConnectError("the connection was closed at once")
    if ip_address(peer[0]) != address:
        raise TargetRefused("private", "the connection leads to another address than the one checked")


def _to_dial(addresses: Sequence[Address]) -> Sequence[Address]:
    """Return at most MAX_DIALS addresses to dial: the first, then the first of the other family, then the others."""
    first = addresses[0].version
    return sorted(addresses, key=lambda address: (address is not addresses[0], address.version == first))[:MAX_DIALS]


class _Allowed:
    """How many bytes of an answer may be read, and how many count as read so far."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0


class _LimitedStream(AsyncNetworkStream):
    """A stream that reads no more than is allowed."""

    def __init__(self, stream: AsyncNetworkStream, allowed: _Allowed) -> None:
        self._stream = stream
        self._allowed = allowed

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read at most `max_bytes`, and no more than are left. Raises httpcore2.ReadError if none are left."""
        allowed = self._allowed
        left = allowed.most - allowed.taken
        if left <= 0:
            raise httpcore2.ReadError(f"the answer is longer than {allowed.most} bytes, or comes in too many pieces")
        data = await self._stream.read(min(max_bytes, left), timeout)
        allowed.taken += max(len(data), PIECE_BYTES)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> AsyncNetworkStream:
        """Start TLS as the underlying stream does, and close that stream if this fails or is cancelled: it would stay
        open otherwise.
        """
        async with AsyncExitStack() as cleanup:
            cleanup.push_async_callback(self._stream.aclose)
            secure = await self._stream.start_tls(ssl_context, server_hostname, timeout)
            cleanup.pop_all()
        return _LimitedStream(secure, self._allowed)

    def get_extra_info(self, info: str) -> object:
        return self._stream.get_extra_info(info)
