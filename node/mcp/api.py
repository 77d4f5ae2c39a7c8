"""/api/v1/mcp: the Streamable HTTP transport, stateless, with JSON answers (SPEC 4.8).

GET and DELETE are answered with 405, as MCP requires of a server without sessions and without messages of its own.
"""

from functools import lru_cache

from node.mcp.server import McpServer, RpcReply
from node.mcp.transport import PREFLIGHT, TransportError, cors_of, event, fault, require_json
from node.mcp.versions import WITH_HANDSHAKE
from node.web.accept import MAX_ACCEPT_CHARACTERS, weight_of, weights
from node.web.http import JSON_TYPE, Header, Request, Response
from node.web.origin import OriginPolicy
from node.web.route import Operation, OtherAnswer, Route, routes_of
from node.web.streams import EVENT_STREAM

PATH = "/api/v1/mcp"

_WITH_HANDSHAKE = frozenset({b"", *(version.encode() for version in WITH_HANDSHAKE)})
"""Values of MCP-Protocol-Version that name a revision with a handshake. Clients of early revisions send no header."""


class McpApi:
    """The handlers of the Streamable HTTP transport."""

    def __init__(self, server: McpServer, origins: OriginPolicy) -> None:
        self._server = server
        self._origins = origins

    @Operation(
        "MCP over Streamable HTTP: one JSON-RPC message or a batch, answered with JSON",
        hot=True,
        body=object,
        also=(
            OtherAnswer(
                "text/event-stream", str, meaning="The same answer as one event, for clients that do not accept JSON"
            ),
            OtherAnswer("", None, 202, "The body has only notifications or responses, which are not answered."),
        ),
        limit="mcp",
        example={"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
    )
    async def post(self, request: Request) -> Response:
        headers = request.first_headers
        cors = cors_of(self._origins, request)
        require_json(request)
        as_events = _wants_events(headers.get(b"accept", b"")[:MAX_ACCEPT_CHARACTERS])
        body = await request.body()
        version = headers.get(b"mcp-protocol-version", b"")
        if version in _WITH_HANDSHAKE:
            reply = await self._server.answer_with_handshake(body, request, version)
        else:
            reply = await self._server.answer_stateless(body, request, headers)
        return _response(reply, as_events, cors)

    @Operation("Which pages may call", hot=True, hidden=True)
    async def preflight(self, request: Request) -> Response:
        return Response(204, b"", (*cors_of(self._origins, request), *PREFLIGHT))

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of the Streamable HTTP transport (SPEC 4.8)."""
        return routes_of("mcp", ("POST", PATH, self.post), ("OPTIONS", PATH, self.preflight), fault=fault)


@lru_cache(maxsize=64)
def _wants_events(accept: bytes) -> bool:
    """Return whether the answer must be an event stream because the client does not accept JSON.

    MCP requires clients to accept both; those that accept only one are served as well. Raises TransportError if the
    client accepts neither.
    """
    wanted = weights(accept.decode("latin-1"))
    if not accept or weight_of("application/json", wanted):
        return False
    if weight_of("text/event-stream", wanted):
        return True
    raise TransportError(406, "Accept application/json or text/event-stream.")


def _response(reply: RpcReply, as_events: bool, cors: tuple[Header, ...]) -> Response:
    if not reply.body:
        return Response(reply.status, b"", cors)
    if as_events and reply.status == 200:
        return Response(200, event(b"message", reply.body), (EVENT_STREAM, *cors))
    return Response(reply.status, reply.body, (JSON_TYPE, *cors))
