"""Whose pages may call: protection against DNS rebinding (MCP transports, 2025-11-25: 403).

A page that makes a browser believe its name belongs to this machine still sends that name as Host and
Origin. Programs send no Origin; they are not concerned.
"""

from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from node.mcp.faults import Rejected
from node.refusal import Refused
from node.web.http import Header

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

CORS: tuple[Header, ...] = (
    (b"vary", b"Origin"),
    (
        b"access-control-expose-headers",
        b"Mcp-Session-Id, Mcp-Protocol-Version, Retry-After, RateLimit, RateLimit-Policy, X-Request-Id, X-Error-Code",
    ),
)
PREFLIGHT: tuple[Header, ...] = (
    (b"allow", b"OPTIONS, POST"),
    (b"access-control-allow-methods", b"POST, GET, DELETE, OPTIONS"),
    (
        b"access-control-allow-headers",
        b"Content-Type, Accept, Authorization, MCP-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name, "
        b"Last-Event-ID",
    ),
    (b"access-control-max-age", b"7200"),
)


class Origins:
    """The hosts that this node answers for, and the pages that may call it."""

    def __init__(self, public_url: str) -> None:
        self._own = (LOOPBACK | {_host_of(public_url)}) - {""}
        self._serves = lru_cache(maxsize=256)(self._judge)

    def check(self, host: bytes, origin: bytes | None) -> tuple[Header, ...]:
        """The CORS headers of an answer to that Origin. Raises Rejected, and Refused `origin.refused`."""
        if not self._serves(host, None):
            raise Rejected(421, "This node is called by another name; its operator sets that with RELAY_BASE_URL.")
        if origin and not self._serves(host, origin):
            raise Refused("origin.refused")
        return ((b"access-control-allow-origin", origin), *CORS) if origin else ()

    def _judge(self, host: bytes, origin: bytes | None) -> bool:
        asked = _host_of("//" + host.decode("latin-1"))
        # An address in figures is what it is: only a name can be made to point here.
        if asked not in self._own and not _is_address(asked):
            return False
        page = _host_of(origin.decode("latin-1")) if origin else asked
        return page in self._own or page == asked


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
