"""Whose request it is: the client address that limits count (DESIGN 6).

The socket's peer, unless that is a proxy the operator trusts; then the rightmost hop of
`Forwarded` or `X-Forwarded-For` that is not trusted. Anything that cannot be parsed counts as the
peer, so a client gains nothing by sending nonsense.
"""

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from node.web.http import Header, Scope

Address = IPv4Address | IPv6Address

_IPV4 = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")
"""As the kernel writes it, which is most requests: nothing to parse."""

UNIX_PEER = "unix"
"""The name of a peer on a unix socket, in RELAY_TRUSTED_PROXIES and in counters."""

_FORWARDED_FOR = re.compile(r'(?:^|[;,\s])for=(?:"([^"]*)"|([^;,\s]+))', re.IGNORECASE)


class ClientAddress:
    """Finds the client of a request."""

    def __init__(self, trusted_proxies: str) -> None:
        """`trusted_proxies`: addresses and networks separated by commas, and `unix`. Raises ValueError."""
        names = [name.strip() for name in trusted_proxies.split(",") if name.strip()]
        self._unix = UNIX_PEER in names
        self._networks: list[IPv4Network | IPv6Network] = [ip_network(n, strict=False) for n in names if n != UNIX_PEER]
        # Behind a proxy every request asks about the same few peers.
        self._trusts = lru_cache(maxsize=4096)(self._is_trusted)

    def of(self, scope: Scope) -> str:
        """The address as it is counted: an IPv4 address, the /64 of an IPv6, or `unix`."""
        client = scope.get("client")
        peer: str = client[0] if client and client[0] else UNIX_PEER
        if not self._networks and not self._unix:
            return counted(peer)
        if not self._trusts(peer):
            return counted(peer)
        found = peer
        for hop in reversed(_hops(scope["headers"])):
            address = _canonical(hop)
            if address is None:
                return counted(peer)
            found = address
            if not self._trusts(found):
                break
        return counted(found)

    def _is_trusted(self, name: str) -> bool:
        if name == UNIX_PEER:
            return self._unix
        address = _parse(name)
        return address is not None and any(address in network for network in self._networks)


@lru_cache(maxsize=4096)
def _canonical(hop: str) -> str | None:
    address = _parse(hop)
    return None if address is None else str(address)


def counted(name: str) -> str:
    """The form of an address under which it is counted: an IPv6 client has a whole /64 to itself."""
    return name if _IPV4.fullmatch(name) else _counted(name)


@lru_cache(maxsize=4096)
def _counted(name: str) -> str:
    address = _parse(name)
    if address is None:
        return UNIX_PEER
    if isinstance(address, IPv6Address):
        return str(IPv6Network((address, 64), strict=False))
    return str(address)


def _parse(name: str) -> Address | None:
    try:
        address = ip_address(_without_port(name))
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _without_port(name: str) -> str:
    if name.startswith("["):
        return name[1:].partition("]")[0]
    if name.count(":") == 1:
        return name.partition(":")[0]
    return name


def _hops(headers: list[Header]) -> list[str]:
    forwarded = b",".join(value for key, value in headers if key == b"forwarded").decode("latin-1")
    if forwarded:
        return [quoted or bare for quoted, bare in _FORWARDED_FOR.findall(forwarded)]
    lines = b",".join(value for key, value in headers if key == b"x-forwarded-for").decode("latin-1")
    return [hop.strip() for hop in lines.split(",") if hop.strip()]
