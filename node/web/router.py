"""The route tables as Litestar handlers, and Litestar's own refusals in our form."""

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

AnyRequest = LitestarRequest[Any, Any, Any]
Handle = Callable[[Route, http.Request], Awaitable[http.Response | None]]

THING = re.compile(r"(?P<pattern>.*\{(?P<name>\w+)\})(:(?P<verb>\w+))?")
"""A path that ends in a parameter, and perhaps what is done to it: Litestar's patterns have no colon."""

CLIENT_GONE = http.Response(counters.CLIENT_GONE, b"")
"""Nobody reads it."""


class LitestarAnswer(LitestarResponse[bytes]):
    """An answer of ours on its way through Litestar, which adds nothing to it."""

    def __init__(self, request: http.Request, response: http.Response) -> None:
        super().__init__(response.body, status_code=response.status)
        self._request = request
        self._response = response

    def to_asgi_response(self, *_: Any, **__: Any) -> ASGIResponse:
        """The answer as it goes out."""
        headers = [*self._response.headers, *self._request.notes]
        lines = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
        if isinstance(self._response, http.Streaming):
            return LitestarStream(self._response, lines, wanted=not self._request.is_head)
        return ASGIResponse(body=self.content, status_code=self.status_code, headers=lines)


class LitestarStream(ASGIResponse):
    """An answer whose body is made while it is sent."""

    _should_set_content_length = False

    def __init__(self, response: http.Streaming, lines: Iterable[tuple[str, str]], *, wanted: bool) -> None:
        super().__init__(status_code=response.status, headers=lines)
        self._streaming = response
        self._wanted = wanted

    async def send_body(self, send: Any, receive: Any) -> None:
        """Send it piece by piece."""
        await self._streaming.send_body(send, wanted=self._wanted)


def router(routes: Iterable[Route], handle: Handle, paths: Paths, missing: http.Fault = response_to) -> http.ASGIApp:
    """An application of the routes, by Litestar; `handle` runs one and turns failures into answers.

    `paths` says what is taken where, `missing` shows that a path is unknown.

    OPTIONS is answered here: Litestar names the methods of one handler of a path only, and never HEAD.
    """

    def refuse(litestar_request: AnyRequest, failure: Exception) -> LitestarAnswer:
        request = _ours(litestar_request)
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


def _endpoints(table: Iterable[Route], handle: Handle) -> list[HTTPRouteHandler]:
    """A handler for each pattern and method, with all the verbs that it has."""
    found: dict[tuple[str, str], dict[str, Route]] = {}
    names: dict[str, str] = {}
    for each in table:
        thing = THING.fullmatch(each.path)
        pattern, name, verb = (thing["pattern"], thing["name"], thing["verb"] or "") if thing else (each.path, "", "")
        names[pattern] = name
        found.setdefault((pattern, each.method), {})[verb] = each
    verbs = {
        pattern: {verb for (at, _), those in found.items() if at == pattern for verb in those} for pattern in names
    }
    return [
        _endpoint(
            pattern,
            method,
            next(iter(those.values())).status,
            partial(_at, those[""], handle)
            if verbs[pattern] == {""}
            else partial(_by_verb, names[pattern], those, verbs[pattern], handle),
        )
        for (pattern, method), those in found.items()
    ]


async def _at(described: Route, handle: Handle, ours: http.Request) -> http.Response | None:
    return await handle(described, ours)


async def _by_verb(
    name: str, those: Mapping[str, Route], verbs: Collection[str], handle: Handle, ours: http.Request
) -> http.Response | None:
    """Run what is done to a thing, or what is asked of the thing itself. `verbs` are those of other methods too."""
    of, colon, last = ours.params[name].rpartition(":")
    verb = last if colon else ""
    if verb and verb in those:
        ours.params = {**ours.params, name: of}  # Litestar keeps the parameters of a path and hands them out again
        return await handle(those[verb], ours)
    if (verb and verb in verbs) or not (colon or "" in those):
        raise MethodNotAllowedException
    if "" in those:
        return await handle(those[""], ours)
    counters.UNROUTED.add(404)
    fault = next(iter(those.values())).fault or response_to
    return fault(ours, Refused("path.unknown"))


def _endpoint(
    pattern: str, method: str, status: int, answer: Callable[[http.Request], Awaitable[http.Response | None]]
) -> HTTPRouteHandler:
    @route(pattern.replace("}", ":str}"), http_method=cast("Any", method), status_code=status)
    async def endpoint(request: AnyRequest) -> LitestarAnswer:
        ours = _ours(request)
        ours.params = request.path_params
        response = await answer(ours)
        return LitestarAnswer(ours, response or CLIENT_GONE)

    return endpoint


def _ours(request: AnyRequest) -> http.Request:
    return cast("http.Scope", request.scope)["relay.request"]
