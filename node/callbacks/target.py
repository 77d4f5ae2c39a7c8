"""Callback URLs: one strict grammar, and what is refused without asking the DNS.

A URL is parsed once, here, and requests are built from its parts, so that no second parser can read it differently.
Forms that two parsers are known to read differently are refused. The addresses of a name are checked in `resolve.py`
and, at every call, in `guard.py`.
"""

import re
from collections.abc import Iterable, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from node.callbacks.public_addresses import is_public
from node.common.addresses import unmapped
from node.config.values import Address, Network

MAX_URL = 2048  # characters
MAX_HOST = 253  # characters, RFC 1035 §2.3.4
WEB_PORTS = frozenset((80, 443, 8080, 8443))
DEFAULT_PORTS = {"http": 80, "https": 443}

LOCAL_DOMAINS = frozenset(
    (
        *("localhost", "local", "localdomain", "internal", "intranet", "lan", "home", "corp", "private", "svc"),
        *("arpa", "onion", "alt"),
    )
)
"""Last labels of names that are not in the public DNS, or have no hosts there (RFC 6761, 6762, 8375, 9476)."""

ANY_ADDRESS_DOMAINS = frozenset(
    (
        *("nip.io", "sslip.io", "xip.io", "xip.name", "backname.io", "traefik.me", "1u.ms", "rbndr.us"),
        *("rebind.network", "localtest.me", "lvh.me", "lacolhost.com", "vcap.me", "localh.st", "local.gd"),
        *("fuf.me", "nicob.net", "spoofed.burpcollaborator.net", "bugbounty.dod.network", "mail.ebc.apple.com"),
        *("metadata.packet.net", "metadata.platformequinix.com", "metadata.tencentyun.com"),
    )
)
"""Public domains whose names lead to a private address, or to any address. Refusing them is a courtesy to the client:
the guard judges the addresses."""

Reason = Literal["syntax", "port", "private", "own"]

_URL = re.compile(
    r"""(?P<scheme>[a-z][a-z0-9+.-]*)://
    (?P<host>\[[0-9a-f:.]+\]|[a-z0-9.-]+)
    (?::(?P<port>[1-9][0-9]{0,4}))?
    (?P<path>/[a-z0-9._~!$&'()*+,;=:@/%-]*)?
    (?:\?(?P<query>[a-z0-9._~!$&'()*+,;=:@/?%-]*))?""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_BAD_ESCAPE = re.compile(r"%(?![0-9a-f]{2})|%[01][0-9a-f]|%7f", re.IGNORECASE)
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")  # a last label that some parsers read as part of an IPv4 address


class TargetRefused(Exception):
    """A URL that is never called. The message tells the client that gave the URL why."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason


class TargetPolicy(msgspec.Struct, frozen=True):
    """What may be called."""

    own: tuple[str, int] = ("", 0)
    """Host and port of this node, which does not call itself: that could become a loop."""
    refused: tuple[Network, ...] = ()
    """Networks that are never called: public ones of the operator, or a NAT64 prefix."""
    allow_private: bool = False
    """For tests: allows any port, any name, and any address that is not in `refused`."""

    @classmethod
    def of(cls, public_url: str, *, refused: Sequence[Network] = (), allow_private: bool = False) -> "TargetPolicy":
        """Return the policy of a node at `public_url` (`Settings.public_url`)."""
        parts = urlsplit(public_url)
        host = parts.hostname or ""
        own = f"[{host}]" if ":" in host else host, parts.port or DEFAULT_PORTS[parts.scheme]
        return cls(own, tuple(refused), allow_private)

    def allows(self, address: Address) -> bool:
        """Whether connections to an address are allowed."""
        plain = unmapped(address)
        return (self.allow_private or is_public(address)) and not any(plain in network for network in self.refused)


class Target(msgspec.Struct, frozen=True):
    """A parsed URL, allowed as far as can be told without the DNS."""

    scheme: Literal["http", "https"]
    host: str
    """A name in lower case, or an address; IPv6 in brackets."""
    port: int
    resource: str
    """Path and query, as sent on the request line."""

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        return self.host if self.port == DEFAULT_PORTS[self.scheme] else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.resource}"

    @property
    def address(self) -> Address | None:
        """The address, if the host is an address; None if it is a name."""
        return _address(self.host)


def parse(url: str, policy: TargetPolicy) -> Target:
    """Parse a callback URL. Raises TargetRefused."""
    if len(url) > MAX_URL:
        raise TargetRefused("syntax", f"the URL is longer than {MAX_URL} characters")
    match = _URL.fullmatch(url)
    if match is None or _BAD_ESCAPE.search(url):
        raise TargetRefused("syntax", _what_is_wrong(url))
    scheme, host = match["scheme"].lower(), match["host"].lower()
    if scheme not in ("http", "https"):
        raise TargetRefused("syntax", "the URL is neither http nor https")
    path, query = match["path"], match["query"]
    if not path and query and "@" in query:  # some parsers read the text before it as a user name
        raise TargetRefused("syntax", "the URL has an @ before its path")
    port = int(match["port"] or DEFAULT_PORTS[scheme])
    resource = (path or "/") + (f"?{query}" if query is not None else "")
    target = Target(scheme, _host(host, policy), port, resource)
    _check_port(target, policy)
    return target


def _host(host: str, policy: TargetPolicy) -> str:
    """Return the host in its only allowed spelling. Raises TargetRefused."""
    if len(host) > MAX_HOST:
        raise TargetRefused("syntax", f"the host is longer than {MAX_HOST} characters")
    labels = host.split(".")
    if host.startswith("[") or _NUMBER.fullmatch(labels[-1]):
        address = _address(host)
        if address is None:
            raise TargetRefused("syntax", "the host is an IP address in an unusual spelling")
        if not policy.allows(address):
            raise TargetRefused("private", "the host is not a public address")
        return str(address) if isinstance(address, IPv4Address) else f"[{address}]"
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise TargetRefused("syntax", "the host is not a domain name; write international ones in punycode")
    if not policy.allow_private and (len(labels) == 1 or labels[-1] in LOCAL_DOMAINS or _has_any_address(labels)):
        raise TargetRefused("private", "the host is not a public domain name")
    return host


def _has_any_address(labels: Sequence[str]) -> bool:
    return any(".".join(labels[start:]) in ANY_ADDRESS_DOMAINS for start in range(len(labels)))


def _address(host: str) -> Address | None:
    try:
        return IPv6Address(host[1:-1]) if host.startswith("[") else IPv4Address(host)
    except AddressValueError:
        return None


def _check_port(target: Target, policy: TargetPolicy) -> None:
    own_host, own_port = policy.own
    # The other web ports of the same host usually belong to a proxy in front of this node.
    if target.host == own_host and (target.port == own_port or target.port in WEB_PORTS):
        others = f", or a port other than {_listed(WEB_PORTS | {own_port})}" if policy.allow_private else ""
        raise TargetRefused("own", f"the URL is this node's own; give the receiver another name or address{others}")
    if target.port not in WEB_PORTS and not policy.allow_private:
        raise TargetRefused("port", f"the port is not one of {_listed(WEB_PORTS)}")


def _listed(ports: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ports)))


def _what_is_wrong(url: str) -> str:
    """Return the likeliest reason why a URL does not fit the grammar."""
    authority = re.split(r"[/?#]", url.partition("://")[2])[0]
    if not url.isascii():
        return "the URL is not plain ASCII; write the host in punycode and percent-encode the rest"
    if re.search(r"[\x00-\x20\x7f]", url):
        return "the URL has blanks or control characters"
    if "://" not in url:
        return "the URL does not begin with http:// or https://"
    if "\\" in url:
        return "the URL has a backslash"
    if "#" in url:
        return "the URL has a fragment; leave out # and what follows"
    if "@" in authority:
        return "the URL has a user name or password"
    if "%" in authority:
        return "the host has a percent-encoded character"
    if _BAD_ESCAPE.search(url):
        return "the URL has a % that is not followed by two hex digits, or an encoded control character"
    return "the URL is not of the form https://host/path?query, with an optional port from 1 to 65535"
