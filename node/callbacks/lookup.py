"""Looks up a name, first in /etc/hosts, then at the DNS servers of /etc/resolv.conf.

dnspython queries the servers. Each of its queries has its own socket, random port and deadline and can be cancelled by
itself, and the answers, which strangers write, are parsed in Python. c-ares (aiodns) needs a quarter of the CPU
(0.15 instead of 0.56 ms a name), but all its queries share sockets, and none can be cancelled by itself.

As with getaddrinfo, a name in the hosts file is not looked up in the DNS, and addresses to which this machine has no
route come last. Unlike with getaddrinfo, `search` and `ndots` of resolv.conf do not apply: names come from strangers,
and must not be completed to names of neighbours in a cluster. The timeouts are the constants below. `resolve.py`
decides how long an answer is kept.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import StringIO
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, cast

import dns.asyncquery
import dns.asyncresolver
import dns.exception
import dns.inet
import dns.message
import dns.nameserver
import dns.resolver

from node.callbacks.dns_answer import MAX_LABELS, check_names
from node.config.values import Address

TRY_SECONDS = 0.7
"""Seconds until a server that has not answered is asked again, or another server is asked."""

LOOKUP_SECONDS = 2.0
"""Seconds until a look-up is given up, after about three tries. Resolvers usually answer within one second."""

MAX_ADDRESSES = 32
"""Maximum number of addresses taken from each family. Further ones are neither checked nor dialled."""

MAX_ANSWER = 4096
"""Maximum size of an answer over TCP, in bytes: four times what MAX_ADDRESSES and their aliases usually take. The owner
of a name can make an answer of 64 KiB, which takes 0.2 s to parse, or 1.3 s if the name has 120 labels."""

HOSTS = Path("/etc/hosts")
RESOLV_CONF = Path("/etc/resolv.conf")
NO_SERVER_NAMED = ["127.0.0.1"]  # resolv.conf(5): the default if no server is named

T = TypeVar("T")


class NotResolved(Exception):
    """A name has no address, or none was found in time."""


class NotLookedUp(NotResolved):
    """A name could not be looked up, for a reason on this machine. That says nothing about the name or its owner."""


class LookupResult(NamedTuple):
    """The addresses of a name, in the order in which to try them, and the seconds for which the answer may be kept."""

    addresses: Sequence[Address]
    ttl: float


class Lookup:
    """Finds all addresses of a name. Only the two files are cached, until they change."""

    def __init__(self, *, hosts: Path = HOSTS, resolv_conf: Path = RESOLV_CONF, port: int = 53) -> None:
        """`port`: the port of the servers in `resolv_conf`."""
        self._hosts = _CachedFile(hosts, _read_hosts)
        self._resolver = _CachedFile(resolv_conf, partial(_read_resolv_conf, port))

    async def __call__(self, host: str) -> LookupResult:
        """Return the addresses of `host`, which is in lower case. Raises NotResolved."""
        listed = self._hosts.content.get(host)
        if listed:
            return LookupResult(_reachable_first(listed), 0.0)
        if host.count(".") >= MAX_LABELS:
            raise NotResolved(f"{host} has more than {MAX_LABELS} labels")
        return await self._ask(host)

    async def _ask(self, host: str) -> LookupResult:
        resolver = self._resolver.content
        answers = await asyncio.gather(
            *(resolver.resolve(host, family, search=False) for family in ("AAAA", "A")), return_exceptions=True
        )
        addresses: list[Address] = []
        ttl = float("inf")
        failures: list[dns.exception.DNSException] = []
        for answer in answers:
            if isinstance(answer, dns.resolver.Answer):
                addresses += [ip_address(record.address) for record in list(answer)[:MAX_ADDRESSES]]
                ttl = min(ttl, answer.chaining_result.minimum_ttl)
            elif isinstance(answer, dns.exception.DNSException):
                failures.append(answer)
            else:
                raise answer
        if not addresses:
            raise _failure(host, failures)
        return LookupResult(_reachable_first(addresses), ttl)


def _failure(host: str, failures: Sequence[dns.exception.DNSException]) -> NotResolved:
    if any(_is_local(failure) for failure in failures):
        return NotLookedUp(f"no DNS server could be asked for {host}")
    if any(isinstance(failure, dns.exception.Timeout) for failure in failures):
        return NotResolved(f"{host} was not resolved within {LOOKUP_SECONDS:g} s")
    return NotResolved(f"{host} has no address")


def _is_local(failure: dns.exception.DNSException) -> bool:
    """Whether the failure means that no server could be reached at all: no network, or no socket left."""
    if not isinstance(failure, dns.resolver.NoNameservers):
        return False
    facts = cast("dict[str, list[dns.resolver.ErrorTuple]]", failure.kwargs)  # pyright: ignore[reportUnknownMemberType]
    return all(isinstance(error, OSError) for _, _, _, error, _ in facts["errors"])


def _reachable_first(addresses: Sequence[Address]) -> Sequence[Address]:
    """Return the addresses in their order, but with those of a family without a route last (RFC 6724 §6, rule 1)."""
    routed = {version: _has_route(first) for version in (6, 4) if (first := _first(addresses, version))}
    return sorted(addresses, key=lambda address: not routed[address.version])


def _first(addresses: Sequence[Address], version: int) -> Address | None:
    return next((address for address in addresses if address.version == version), None)


def _has_route(address: Address) -> bool:
    """Whether there is a route to an address. Nothing is sent: connecting a datagram socket only looks for a route."""
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 53))
    except OSError:
        return False
    return True


class _CheckedSocket:
    """dnspython's datagram socket (`Any`: it has no type), without the answers that take long to parse."""

    def __init__(self, plain: Any, question: int) -> None:
        """`question`: the id of the query."""
        self._plain = plain
        self._question = question.to_bytes(2)
        self.family = plain.family
        self.sendto = plain.sendto

    async def recvfrom(self, size: int, timeout: float | None) -> tuple[bytes, Any]:
        """Receive a datagram. Raises FormError if it answers the query and takes long to parse."""
        wire, sender = cast("tuple[bytes, Any]", await self._plain.recvfrom(size, timeout))
        try:
            check_names(wire)
        except dns.exception.FormError:
            if wire[:2] == self._question:
                raise
            return b"", sender  # anybody may have sent it; dnspython ignores an empty datagram, as it is no answer
        return wire, sender


class _Server(dns.nameserver.Do53Nameserver):
    """A DNS server whose answers are refused if they take long to parse."""

    async def async_query(
        self,
        request: dns.message.QueryMessage,
        timeout: float,
        source: str | None,
        source_port: int,
        max_size: bool,
        backend: Any,
        one_rr_per_rrset: bool = False,
        ignore_trailing: bool = False,
    ) -> dns.message.Message:
        """Ask over TCP if `max_size`, otherwise over UDP. Raises what dnspython expects."""
        if not max_size:
            family = dns.inet.af_for_address(self.address)
            async with await backend.make_socket(family, socket.SOCK_DGRAM) as plain:
                return await dns.asyncquery.udp(
                    request,
                    self.address,
                    timeout,
                    self.port,
                    raise_on_truncation=True,
                    sock=cast("Any", _CheckedSocket(plain, request.id)),
                    ignore_errors=True,
                    ignore_unexpected=True,
                )
        try:
            async with asyncio.timeout(timeout):
                return await self._ask_over_tcp(request)
        except TimeoutError:
            raise dns.exception.Timeout(timeout=timeout) from None

    async def _ask_over_tcp(self, request: dns.message.QueryMessage) -> dns.message.Message:
        reader, writer = await asyncio.open_connection(self.address, self.port)
        try:
            writer.write(request.to_wire(prepend_length=True))
            length = int.from_bytes(await reader.readexactly(2))
            if length > MAX_ANSWER:
                raise dns.exception.FormError(f"the answer has {length} bytes")
            wire = await reader.readexactly(length)
            check_names(wire)
            answer = dns.message.from_wire(wire)
        finally:
            writer.close()
        if not request.is_response(answer):
            raise dns.exception.FormError("the answer is to another question")
        return answer


class _CachedFile(Generic[T]):
    """The content of a file, which is read again after the file has changed."""

    def __init__(self, path: Path, read: Callable[[Path], T]) -> None:
        self._path = path
        self._read = read
        self._seen: tuple[int, int, int] | None = None
        self._content: T | None = None

    @property
    def content(self) -> T:
        try:
            status = self._path.stat()
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:
            seen = (0, 0, 0)
        if self._content is None or seen != self._seen:
            self._content, self._seen = self._read(self._path), seen
        return self._content


def _read_hosts(path: Path) -> Mapping[str, Sequence[Address]]:
    """Return the addresses of each name, in lower case. Lines that cannot be read are skipped, as hosts(5) says."""
    names: dict[str, list[Address]] = {}
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return names
    for line in lines:
        address, *aliases = line.partition("#")[0].split() or [""]
        try:
            number = ip_address(address)
        except ValueError:
            continue
        for alias in aliases:
            known = names.setdefault(alias.lower(), [])
            if number not in known:
                known.append(number)
    return names


def _read_resolv_conf(port: int, path: Path) -> dns.asyncresolver.Resolver:
    resolver = dns.asyncresolver.Resolver(configure=False)
    try:
        with path.open(errors="replace") as lines:
            usable = StringIO("".join(filter(_is_usable, lines)))
        resolver.read_resolv_conf(usable)  # pyright: ignore[reportUnknownMemberType]
    except (OSError, dns.resolver.NoResolverConfiguration):  # there is no such file, or it names no server
        resolver.nameservers = NO_SERVER_NAMED
    resolver.nameservers = [_Server(str(each), port) for each in resolver.nameservers]
    resolver.timeout, resolver.lifetime = TRY_SECONDS, LOOKUP_SECONDS
    return resolver


def _is_usable(line: str) -> bool:
    """Whether a line of resolv.conf is valid and applies here.

    dnspython would refuse the whole file because of a server that is not an address or a suffix that is not a name; the
    system's resolver skips such a line.
    """
    match line.split():
        case ["nameserver", server, *_]:
            return dns.inet.is_address(server)
        case ["options", *_]:
            return True
        case _:
            return False
