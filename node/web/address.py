"""The client address of a request, by which limits count (DESIGN 6).

It is the socket's peer, unless the peer is a proxy that the operator trusts. In that case it is the rightmost untrusted
hop in the one header that, according to the settings, the proxy writes; the client may have written the other header
itself. The header is read from the right, where the proxy adds its peer, and only as far as needed, so nothing that a
client writes further left has any effect. If a hop cannot be parsed, the peer counts as the client.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import structlog

from node.common.addresses import unmapped
from node.config.values import UNIX_PEER, Address, Proxies
from node.share.site import CLIENT_BITS
from node.web.http import Header, Scope

log = structlog.get_logger()

_IPV4 = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")
"""Matches most peers' names, as the kernel gives them. Such a name needs no parsing."""

X_FORWARDED_FOR = "x-forwarded-for"
"""The header that nearly all proxies write."""

_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PAIRS = re.compile(rf'({_WORD})=(?:({_WORD})|"([^"\\]*)")')
_BACKWARDS = rf'(?:{_WORD}|"[^"\\]*")={_WORD}'
_LAST_ELEMENT = re.compile(rf"[ \t]*(?P<pairs>{_BACKWARDS}(?:[ \t]*;{_BACKWARDS})*)[ \t]*(?:,|\Z)")
"""Matches the last element of a Forwarded header (RFC 7239 §4) in the reversed header, so that whatever precedes the
element costs nothing. Backslashes are not allowed, and no proxy needs them. Without them quotes come in pairs, so an
unclosed quote from a client cannot extend into the part that the proxy adds."""

_WITH_PORT = re.compile(r"\[([^\[\]]*)\](?::[0-9]{1,5})?|([0-9.]+):[0-9]{1,5}")

_NAT64 = IPv6Network("64:ff9b::/96")
"""The addresses that a translator gives to IPv4 clients of an IPv6-only node (RFC 6052 §2.1, RFC 7755)."""

SAMPLED_ONE_IN = 64
"""One in this many requests from untrusted peers is checked for a proxy's header."""

MAX_WARNINGS = 16
"""Most peers about which one process warns."""


class ClientAddress:
    """Finds the client of a request."""

    def __init__(self, trusted: Proxies, header: str = X_FORWARDED_FOR) -> None:
        """`header`: the header that trusted proxies write."""
        self._header = header.encode()
        self._hops = _in_x_forwarded_for if header == X_FORWARDED_FOR else _in_forwarded
        self._untrusted_requests = 0
        self._warned_about: set[str] = set()
        self.trust(trusted)

    def trust(self, trusted: Proxies) -> None:
        """Trust these proxies from now on."""
        self._trusted = trusted
        # Behind a proxy, all requests come from the same few peers.
        self._trusts = lru_cache(maxsize=4096)(self._is_trusted)

    def of(self, scope: Scope) -> str:
        """Return the client as limits count it: an IPv4 address, the /64 of an IPv6 address, or `unix`."""
        client = scope.get("client")
        peer: str = client[0] if client and client[0] else UNIX_PEER
        if not self._trusted or not self._trusts(peer):
            self._untrusted_requests += 1
            if self._untrusted_requests % SAMPLED_ONE_IN == 1:
                self._warn_of_untrusted_proxy(peer, scope["headers"])
            return client_named(peer)
        found = peer
        headers: list[Header] = scope["headers"]
        lines = b",".join(value for key, value in headers if key == self._header).decode("latin-1")
        for hop in self._hops(lines):
            address = _canonical(hop)
            if address is None:
                return client_named(peer)
            found = address
            if not self._trusts(found):
                break
        return client_named(found)

    def _warn_of_untrusted_proxy(self, peer: str, headers: list[Header]) -> None:
        """Warn once about an untrusted peer with a private address that sends a proxy's header.

        It is most likely the operator's own proxy, forgotten in RELAY_TRUSTED_PROXIES. From a public address, anybody
        may send such a header.
        """
        if len(self._warned_about) == MAX_WARNINGS or all(key != self._header for key, _ in headers):
            return
        address = _parse(peer)
        is_private = address.is_private if address else peer == UNIX_PEER
        if is_private and peer not in self._warned_about:
            self._warned_about.add(peer)
            log.warning(
                "a proxy is not believed: all its clients share its limits; if it is yours, name it",
                peer=peer,
                header=self._header.decode(),
                setting="RELAY_TRUSTED_PROXIES",
            )

    def _is_trusted(self, name: str) -> bool:
        if name == UNIX_PEER:
            return self._trusted.unix
        address = _parse(name)
        return address is not None and address in self._trusted


@lru_cache(maxsize=4096)
def _canonical(hop: str) -> str | None:
    address = _parse(hop)
    return None if address is None else str(address)


@lru_cache(maxsize=4096)
def client_named(name: str) -> str:
    """Return the client at an address as limits count it: an IPv6 client is a whole /64."""
    if _IPV4.fullmatch(name):
        return name
    address = _parse(name)
    if address is None:
        return UNIX_PEER
    if address in _NAT64:  # a single /64 contains the whole IPv4 Internet
        return str(IPv4Address(address.packed[-4:]))
    if isinstance(address, IPv6Address):
        return str(IPv6Network((address, CLIENT_BITS), strict=False))
    return str(address)


def _parse(name: str) -> Address | None:
    try:
        return unmapped(ip_address(_without_port(name)))
    except ValueError:
        return None


def _without_port(name: str) -> str:
    match = _WITH_PORT.fullmatch(name)
    return (match[1] or match[2]) if match else name


def _in_x_forwarded_for(lines: str) -> Iterator[str]:
    """Return the hops from last to first."""
    return (name for hop in reversed(lines.split(",")) if (name := hop.strip()))


def _in_forwarded(lines: str) -> Iterator[str]:
    """Yield the hops from last to first. Where the header cannot be parsed, yield an empty hop and stop."""
    backwards, start = lines[::-1], 0
    while start < len(backwards):
        element = _LAST_ELEMENT.match(backwards, start)
        pairs = _PAIRS.findall(element["pairs"][::-1]) if element else []
        named = [bare or quoted for name, bare, quoted in pairs if name.lower() == "for"]
        if element is None or len(named) != 1:
            yield ""
            return
        yield named[0]
        start = element.end()
