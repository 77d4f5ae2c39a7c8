"""Litestar's router for the route tables: it finds the handler, and its own errors are answered in our form."""

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, cast

from litestar import Litestar
from litestar import Request as LitestarRequest
from litestar import Response as LitestarResponse
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException
from litestar.handlers import HTTPRouteHandler, route
from litestar.response.base import ASGIResponse

from node.common import counters
from node.common.refusal import Refused
from node.web import http
from node.web.errors import response_to
from node.web.paths import Paths
from node.web.route import Route
from node.web.streams import Streaming

AnyRequest = LitestarRequest[Any, Any, Any]
Handle = Callable[[Route, http.Request], Awaitable[http.Response | None]]
"""Runs the handler of a route; see `node.web.handling`."""
ServeEndpoint = Callable[[http.Request], Awaitable[http.Response | None]]
"""Serves the requests of one pattern and method; None if the client has gone away."""

WITH_PARAMETER_LAST = re.compile(r"(?P<pattern>.*\{\w+\})(:(?P<verb>\w+))?")
"""A path that ends in a parameter and optionally a verb, as in `{id}:cancel`. Litestar's patterns have no colon, so one
handler serves the path with all its verbs."""

CLIENT_GONE = http.Response(counters.CLIENT_GONE, b"")
"""Stands for the answer to a client that has gone away."""


class LitestarAnswer(LitestarResponse[bytes]):
    """An answer in the form that Litestar needs, to which Litestar adds nothing."""

    def __init__(self, request: http.Request, response: http.Response) -> None:
        super().__init__(response.body, status_code=response.status)
        self._request = request
        self._response = response

    def to_asgi_response(self, *_: Any, **__: Any) -> ASGIResponse:
        """Called by Litestar."""
        headers = [*self._response.headers, *self._request.notes]
        lines = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
        if isinstance(self._response, Streaming):
            return LitestarStream(self._response, lines, wanted=not self._request.is_head)
        return ASGIResponse(body=self.content, status_code=self.status_code, headers=lines)


class LitestarStream(ASGIResponse):
    """An answer whose body is made while it is sent."""

    _should_set_content_length = False

    def __init__(self, response: Streaming, lines: Iterable[tuple[str, str]], *, wanted: bool) -> None:
        super().__init__(status_code=response.status, headers=lines)
        self._streaming = response
        self._wanted = wanted

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Called by Litestar."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._streaming.end()

    async def send_body(self, send: Any, receive: Any) -> None:
        """Called by Litestar."""
        await self._streaming.send_body(send, wanted=self._wanted)


def router(routes: Iterable[Route], handle: Handle, paths: Paths, missing: http.Fault = response_to) -> http.ASGIApp:
    """An application that serves the routes. `missing` makes the answer for unknown paths.

    It answers OPTIONS by itself: Litestar would name only the methods of one handler, and never HEAD.
    """

    def refuse(litestar_request: AnyRequest, failure: Exception) -> LitestarAnswer:
        request = _request_in(litestar_request)
        if isinstance(failure, NotFoundException):
            counters.UNROUTED.add(404)
            return LitestarAnswer(request, missing(request, Refused("path.unknown")))
        if isinstance(failure, MethodNotAllowedException):
            counters.UNROUTED.add(405)
            response = paths.fault(request.method, request.path)(request, Refused("method.unknown"))
            response.headers = [*response.headers, (b"allow", paths.allowed(request.path).encode())]
            return LitestarAnswer(request, response)
        return LitestarAnswer(request, response_to(request, failure))

    litestar = Litestar(
        route_handlers=_endpoints(routes, handle),
        exception_handlers={HTTPException: refuse, Exception: refuse},
        openapi_config=None,
        logging_config=None,
    )

    async def app(scope: http.Scope, receive: http.Receive, send: http.Send) -> None:
        if scope["method"] == "OPTIONS" and (allowed := paths.allowed(scope["path"])) != "OPTIONS":
            counters.UNROUTED.add(204)
            headers = [(b"allow", allowed.encode())]
            await send({"type": "http.response.start", "status": 204, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
        else:
            await litestar(scope, receive, send)  # type: ignore[arg-type]

    return app


def _endpoints(routes: Iterable[Route], handle: Handle) -> list[HTTPRouteHandler]:
    """A Litestar handler for each pattern and method, which serves all its verbs."""
    by_verb: dict[tuple[str, str], dict[str, Route]] = {}
    verbs: dict[str, set[str]] = {}
    """By pattern, the verbs of all methods."""
    for each in routes:
        match = WITH_PARAMETER_LAST.fullmatch(each.path)
        pattern, verb = (match["pattern"], match["verb"] or "") if match else (each.path, "")
        by_verb.setdefault((pattern, each.method), {})[verb] = each
        verbs.setdefault(pattern, set()).add(verb)
    endpoints: list[HTTPRouteHandler] = []
    for (pattern, method), served in by_verb.items():
        serve: ServeEndpoint
        if verbs[pattern] == {""}:
            serve = partial(handle, served[""])
        else:
            name = pattern.rpartition("{")[2].rstrip("}")
            serve = partial(_serve_verb, name, served, verbs[pattern], handle)
        endpoints.append(_endpoint(pattern, method, next(iter(served.values())).status, serve))
    return endpoints


async def _serve_verb(
    name: str, served: Mapping[str, Route], verbs: Collection[str], handle: Handle, request: http.Request
) -> http.Response | None:
    """Serve the operation of the verb in the last path parameter, `name`, or the one without a verb.

    `served` are the operations of the request's method by verb, `verbs` those of all methods.
    """
    value, colon, last = request.params[name].rpartition(":")
    verb = last if colon else ""
    if verb and verb in served:
        request.params = {**request.params, name: value}  # a copy: Litestar keeps the dictionary and hands it out again
        return await handle(served[verb], request)
    if (verb and verb in verbs) or not (colon or "" in served):
        raise MethodNotAllowedException
    if "" in served:
        return await handle(served[""], request)
    counters.UNROUTED.add(404)
    fault = next(iter(served.values())).fault or response_to
    return fault(request, Refused("path.unknown"))


def _endpoint(pattern: str, method: str, status: int, serve: ServeEndpoint) -> HTTPRouteHandler:
    @route(pattern.replace("}", ":str}"), http_method=cast("Any", method), status_code=status)
    async def endpoint(request: AnyRequest) -> LitestarAnswer:
        ours = _request_in(request)
        ours.params = request.path_params
        response = await serve(ours)
        return LitestarAnswer(ours, response or CLIENT_GONE)

    return endpoint


def _request_in(request: AnyRequest) -> http.Request:
    return cast("http.Scope", request.scope)["relay.request"]
