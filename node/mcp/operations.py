"""Requests that the node makes to its own operations: the same handlers, limits, gate and errors as over HTTP."""

from collections.abc import Sequence
from urllib.parse import quote

from node.web.http import JSON_TYPE, Header, Request, Response
from node.web.route import Route
from node.web.router import CLIENT_GONE, Handle


class OperationRequest(Request):
    """A request on behalf of the client of another one, whose body is there already.

    It carries no signature and no Idempotency-Key: those belong to the bytes that the client sent.
    """

    __slots__ = ()

    def __init__(
        self, outer: Request, route: Route, params: dict[str, str], query: str, body: bytes, headers: Sequence[Header]
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
        super().__init__(scope, outer.receive, outer.client, outer.id, outer.deadlines)
        self.params = params
        self._body = body


class Operations:
    """The operations of the node, by method and path."""

    def __init__(self, routes: Sequence[Route], handle: Handle) -> None:
        """`handle` runs a handler and turns whatever goes wrong into an answer."""
        self._routes = {(route.method, route.path): route for route in routes}
        self._handle = handle

    def find(self, method: str, path: str) -> Route | None:
        """The operation, if this node has it."""
        return self._routes.get((method, path))

    async def call(
        self,
        outer: Request,
        route: Route,
        *,
        params: dict[str, str] | None = None,
        query: str = "",
        body: bytes = b"",
        headers: Sequence[Header] = (),
    ) -> Response:
        """The operation's answer to the client of `outer`."""
        inner = OperationRequest(outer, route, params or {}, query, body, headers)
        return await self._handle(route, inner) or CLIENT_GONE
