"""Shared by both HTTP transports of MCP: the check of Origin and media type, and failures as JSON-RPC errors."""

from node.common.refusal import Refused
from node.mcp.json_rpc import INTERNAL_ERROR, INVALID_REQUEST, RpcError, error_reply
from node.mcp.tool_result import sentence
from node.web.errors import response_to
from node.web.http import JSON_TYPE, Header, Request, Response
from node.web.json import media_type
from node.web.origin import VARY, OriginPolicy
from node.web.streams import one_line

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


class TransportError(Exception):
    """Refusal of a whole request by the transport, before its messages are decoded."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def cors_of(origins: OriginPolicy, request: Request) -> tuple[Header, ...]:
    """Validate the Origin, and return the CORS headers of the answer. Raises Refused `host.foreign`, `origin.refused`.

    MCP requires every server to validate the Origin, and to answer 403 to an invalid one (MCP 2025-11-25, transports).
    """
    origin = request.first_headers.get(b"origin")
    if code := origins.judge(request.first_headers[b"host"], origin):
        raise Refused(code)
    return ((b"access-control-allow-origin", origin), *CORS) if origin else ()


def require_json(request: Request) -> None:
    """Raise TransportError unless the body is declared as JSON."""
    if media_type(request) != "application/json":
        raise TransportError(415, "Send the body as application/json.")


def event(kind: bytes, data: bytes) -> bytes:
    """Encode one server-sent event. `data` is JSON, or a URL."""
    return b"event: %b\ndata: %b\n\n" % (kind, one_line(data))


def fault(request: Request, failure: Exception) -> Response:
    """Return the answer to a request that failed as a whole: a JSON-RPC error with a null id."""
    if isinstance(failure, TransportError):
        return Response(failure.status, _error(failure.status, str(failure)), (JSON_TYPE,))
    response = response_to(request, failure)  # logs unexpected exceptions
    return Response(response.status, _error(response.status, sentence(response.body)), response.headers)


def _error(status: int, message: str) -> bytes:
    return error_reply(None, RpcError(INTERNAL_ERROR if status >= 500 else INVALID_REQUEST, message))
