"""Whose pages may call MCP: its specification asks every server to look (MCP transports, 2025-11-25: 403)."""

from node.common.refusal import Refused
from node.web.http import Header
from node.web.origin import VARY, Origins

CORS: tuple[Header, ...] = (
    VARY,
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


def cors_of(origins: Origins, host: bytes, origin: bytes | None) -> tuple[Header, ...]:
    """The CORS headers of an answer to that Origin. Raises Refused `host.foreign`, `origin.refused`."""
    code = origins.judge(host, origin or None)
    if code:
        raise Refused(code)
    return ((b"access-control-allow-origin", origin), *CORS) if origin else ()
