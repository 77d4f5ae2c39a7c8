"""Calls the node's own operations for MCP: the same handlers, limits, language check and errors as over HTTP."""

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from node.web.handling import handle
from node.web.http import JSON_TYPE, Disconnected, Header, Request, Response
from node.web.route import Route

Operations = Mapping[str, Route]
"""Routes by method and path, as tools and resources name them: `GET /health`."""


class OperationRequest(Request):
    """A request to an operation on behalf of the client that sent a JSON-RPC message.

    Its body is complete from the start. The signature and Idempotency-Key of the client's request are not passed on:
    they cover the JSON-RPC message, not the operation's body.
    """

    __slots__ = ()

    def __init__(
        self,
        of_client: Request,
        route: Route,
        params: dict[str, str],
        query: str,
        body: bytes,
        headers: Sequence[Header],
    ) -> None:
        path = route.path
        for name, value in params.items():
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        scope = {
            "type": "http",
            "method": route.method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [JSON_TYPE, *headers],
        }
        super().__init__(scope, of_client.receive, of_client.client, of_client.id, of_client.deadlines, of_client.turn)
        self.params = params
        self.size = of_client.size  # the client's body stays in memory until the answer
        self._body = body


async def call_operation(
    of_client: Request,
    route: Route,
    *,
    params: dict[str, str] | None = None,
    query: str = "",
    body: bytes = b"",
    headers: Sequence[Header] = (),
) -> Response:
    """Run an operation on behalf of the client that sent `of_client`, and return its answer.

    Raises Disconnected if the client has disconnected meanwhile, so that the rest of its batch is not begun.
    """
    request = OperationRequest(of_client, route, params or {}, query, body, headers)
    response = await handle(route, request)
    of_client.cost += request.cost
    of_client.has_waited |= request.has_waited
    if response is None:
        raise Disconnected
    return response
