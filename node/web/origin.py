"""Decides which web pages may call this node from a browser: CORS, and protection against DNS rebinding.

Browsers send a page's Origin with every POST, and with every request whose answer the page may read. Other programs
send no Origin and are not restricted. A page that uses DNS rebinding, that is, whose own name resolves to this machine,
still has that name in Host.
"""

from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from node.common.addresses import unmapped
from node.config import Settings
from node.web.http import Header, Request

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

CORS_OPEN: Header = (b"access-control-allow-origin", b"*")
VARY: Header = (b"vary", b"Origin")
EXPOSED: Header = (
    b"access-control-expose-headers",
    b"Retry-After, RateLimit, RateLimit-Policy, Signature-Error, Accept-Signature, Mcp-Session-Id, "
    b"Mcp-Protocol-Version, Location, "
    b"ETag, X-Request-Id, X-Error-Code, X-Ignored-Fields, Idempotency-Replayed, Oldest-Cursor",
)
CORS_READABLE = (CORS_OPEN, EXPOSED)
PREFLIGHT: tuple[Header, ...] = (
    (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, DELETE, OPTIONS"),
    (
        b"access-control-allow-headers",
        b"Content-Type, Accept, Authorization, Content-Digest, Signature, Signature-Input, Signature-Key, "
        b"Idempotency-Key, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name, Last-Event-ID, A2A-Version, "
        b"A2A-Extensions, If-Match, If-None-Match",
    ),
    (b"access-control-max-age", b"7200"),
)
"""Headers of the answer to a CORS preflight request, in addition to those of every answer."""


class OriginPolicy:
    """The names that this node answers to, and the pages that may call it."""

    def __init__(self, settings: Settings) -> None:
        allowed = settings.allowed_origins
        self._own = (LOOPBACK | {host_of(settings.public_url)}) - {""}
        self._listed = frozenset(origin.encode() for origin in allowed.listed)
        self.is_open = allowed.everyone or (not allowed.given and not _is_for_this_machine(settings))
        """Whether every page may call the node. If so, only MCP checks the Origin, because its specification requires
        that."""
        self._checks_every_host = allowed.given
        """Whether Host is also checked for programs other than browsers. Off by default: the node may be behind a proxy
        that it does not know of."""
        self.judge = lru_cache(maxsize=256)(self._judge)
        """`_judge` with a cache of its results."""

    def refusal(self, request: Request) -> str:
        """Return the code with which a node that is not open refuses the request; empty if it does not refuse it.

        A page that has rebound its own name to the node sends no Origin when it reads. It cannot, however, stop its
        browser from sending Accept-Language, a header that API clients do not send.
        """
        named = request.first_headers
        host, origin = named.get(b"host"), named.get(b"origin")
        if host is None or not (origin or self._checks_every_host or b"accept-language" in named):
            return ""
        return self.judge(host, origin)

    def headers(self, request: Request) -> tuple[Header, ...]:
        """Return the CORS headers of an answer from a node that is not open."""
        origin = request.first_headers.get(b"origin")
        if not origin or self.refusal(request):
            return (VARY,)
        return (b"access-control-allow-origin", origin), EXPOSED, VARY

    def _judge(self, host: bytes, origin: bytes | None) -> str:
        """Return `host.foreign` if Host is not a name of this node, `origin.refused` if the page may not call it, else
        empty."""
        requested = host_of("//" + host.decode("latin-1"))
        # DNS rebinding needs a name: nobody can make an IP address resolve to this machine.
        if requested not in self._own and not is_address(requested):
            return "host.foreign"
        if not origin or origin in self._listed:
            return ""
        page = host_of(origin.decode("latin-1"))
        return "" if page in self._own or page == requested else "origin.refused"


def host_of(url: str) -> str:
    """Return the host in a URL, or in `//host:port`; empty if there is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_for_this_machine(settings: Settings) -> bool:
    """Return whether only programs on this machine can reach the node, none of which is a proxy for others."""
    return all(map(is_loopback, (settings.host, host_of(settings.public_url)))) and not settings.trusted_proxies


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, by name or address."""
    return host in LOOPBACK or (is_address(host) and unmapped(ip_address(host)).is_loopback)


def is_address(host: str) -> bool:
    """Return whether a host is an IP address."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
