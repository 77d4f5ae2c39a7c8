"""/api/v1/mcp: the Streamable HTTP transport, stateless, with JSON answers (SPEC 4.8).

GET and DELETE get 405: there are no sessions, and nothing is sent unasked.
"""

from node.mcp.origin import PREFLIGHT, cors_of
from node.mcp.server import McpServer, RpcReply
from node.mcp.transport_errors import Rejected, fault, only_json
from node.mcp.versions import WITH_HANDSHAKE
from node.web.http import JSON_TYPE, Header, Request, Response
from node.web.origin import Origins
from node.web.route import Route

PATH = "/api/v1/mcp"

EVENT_STREAM: Header = (b"content-type", b"text/event-stream")

_WITH_HANDSHAKE = frozenset({b"", *(version.encode() for version in WITH_HANDSHAKE)})


class McpApi:
    """MCP over plain HTTP."""

    def __init__(self, server: McpServer, origins: Origins) -> None:
        self._server = server
        self._origins = origins

    async def post(self, request: Request) -> Response:
        """Answer a JSON-RPC message or batch."""
        headers = request.named
        cors = cors_of(self._origins, headers[b"host"], headers.get(b"origin"))
        only_json(request.header(b"content-type"))
        as_events = _wants_events(headers.get(b"accept", b""))
        body = await request.body()
        if headers.get(b"mcp-protocol-version", b"") in _WITH_HANDSHAKE:
            reply = await self._server.legacy(body, request)
        else:
            reply = await self._server.modern(body, request, headers)
        return _response(reply, as_events, cors)

    async def preflight(self, request: Request) -> Response:
        """Tell a browser that its page may call."""
        host = request.header(b"host") or ""
        origin = request.header(b"origin")
        cors = cors_of(self._origins, host.encode("latin-1"), origin.encode("latin-1") if origin else None)
        return Response(204, b"", (*cors, *PREFLIGHT))

    def routes(self) -> tuple[Route, ...]:
        """SPEC 4.8, the HTTP transport."""
        return (
            Route(
                method="POST",
                path=PATH,
                handler=self.post,
                summary="MCP over Streamable HTTP: one JSON-RPC message or a batch, answered with JSON",
                tag="mcp",
                body=object,
                limit="mcp",
                example={"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
                fault=fault,
            ),
            Route(
                method="OPTIONS",
                path=PATH,
                handler=self.preflight,
                summary="Which pages may call",
                tag="mcp",
                fault=fault,
                hidden=True,
            ),
        )


def _wants_events(accept: bytes) -> bool:
    """Whether the answer must be an event stream. Liberal: JSON unless it is plainly not wanted.

    Raises Rejected if the client takes neither.
    """
    if not accept or b"application/json" in accept or b"*/*" in accept or b"application/*" in accept:
        return False
    if b"text/event-stream" in accept or b"text/*" in accept:
        return True
    raise Rejected(406, "Accept application/json or text/event-stream.")


def _response(reply: RpcReply, as_events: bool, cors: tuple[Header, ...]) -> Response:
    if not reply.body:
        return Response(reply.status, b"", cors)
    if as_events and reply.status == 200:
        return Response(200, event(b"message", reply.body), (EVENT_STREAM, *cors))
    return Response(reply.status, reply.body, (JSON_TYPE, *cors))


def event(kind: bytes, data: bytes) -> bytes:
    """One server-sent event. A line break between two JSON tokens would end its data."""
    return b"event: %b\ndata: %b\n\n" % (kind, data.replace(b"\r", b" ").replace(b"\n", b" "))
