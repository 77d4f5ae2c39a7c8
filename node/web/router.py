"""The route tables as Litestar handlers, and Litestar's own refusals in our form."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, cast

from litestar import Litestar
from litestar import Request as LitestarRequest
from litestar import Response as LitestarResponse
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException
from litestar.handlers import HTTPRouteHandler, route
from litestar.response.base import ASGIResponse

from node import tally
from node.refusal import Refused
from node.web import http
from node.web.errors import refusal, response_to
from node.web.route import Route

AnyRequest = LitestarRequest[Any, Any, Any]
ASGIApp = Callable[[http.Scope, http.Receive, http.Send], Awaitable[None]]
Handle = Callable[[Route, http.Request], Awaitable[http.Response | None]]

VERB = re.compile(r"(?P<pattern>.*\{(?P<name>\w+)\}):(?P<verb>\w+)")
"""A path that ends in a parameter and what is done to it: Litestar's patterns have no colon."""

CLIENT_GONE = http.Response(tally.CLIENT_GONE, b"")
"""Nobody reads it."""


class Answer(LitestarResponse[bytes]):
    """An answer of ours on its way through Litestar, which adds nothing to it."""

    def __init__(self, request: http.Request, response: http.Response) -> None:
        super().__init__(response.body, status_code=response.status)
        self._lines = [
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in [*response.headers, *request.notes]
        ]

    def to_asgi_response(self, *_: Any, **__: Any) -> ASGIResponse:
        """The answer as it goes out."""
        return ASGIResponse(body=self.content, status_code=self.status_code, headers=self._lines)


def router(routes: Iterable[Route], handle: Handle, missing: http.Fault = response_to) -> ASGIApp:
    """An application of the routes, by Litestar; `handle` runs one and turns failures into answers.

    `missing` shows that a path is unknown.

    OPTIONS is answered here: Litestar names the methods of one handler of a path only, and never HEAD.
    """
    table = list(routes)
    methods: dict[str, set[str]] = {}
    for each in table:
        methods.setdefault(each.path, set()).add(each.method)

    def refuse(litestar_request: AnyRequest, failure: Exception) -> Answer:
        request = _ours(litestar_request)
        if isinstance(failure, NotFoundException):
            tally.UNROUTED.add(404)
            return Answer(request, missing(request, Refused("path.unknown")))
        if isinstance(failure, MethodNotAllowedException):
            tally.UNROUTED.add(405)
            response = refusal(Refused("method.unknown"))
            response.headers = [*response.headers, (b"allow", _allowed(methods, request.path).encode())]
            return Answer(request, response)
        return Answer(request, response_to(request, failure))

    litestar = Litestar(
        route_handlers=[*_plain(table, handle), *_verbs(table, handle)],
        exception_handlers={HTTPException: refuse, Exception: refuse},
        openapi_config=None,
        logging_config=None,
    )

    async def app(scope: http.Scope, receive: http.Receive, send: http.Send) -> None:
        if scope["method"] == "OPTIONS" and (allowed := _allowed(methods, scope["path"])) != "OPTIONS":
            tally.UNROUTED.add(204)
            headers = [(b"allow", allowed.encode())]
            await send({"type": "http.response.start", "status": 204, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
        else:
            await litestar(scope, receive, send)  # type: ignore[arg-type]

    return app


def _plain(table: Iterable[Route], handle: Handle) -> list[HTTPRouteHandler]:
    return [
        _endpoint(each.path, each.method, each.status, partial(_at, each, handle))
        for each in table
        if VERB.fullmatch(each.path) is None
    ]


def _verbs(table: Iterable[Route], handle: Handle) -> list[HTTPRouteHandler]:
    """One handler for all that can be done to the same thing."""
    found: dict[tuple[str, str, str], dict[str, Route]] = {}
    for each in table:
        if (match := VERB.fullmatch(each.path)) is not None:
            found.setdefault((match["pattern"], each.method, match["name"]), {})[match["verb"]] = each
    return [
        _endpoint(pattern, method, 200, partial(_by_verb, name, verbs, handle))
        for (pattern, method, name), verbs in found.items()
    ]


async def _at(described: Route, handle: Handle, ours: http.Request) -> http.Response | None:
    return await handle(described, ours)


async def _by_verb(name: str, verbs: Mapping[str, Route], handle: Handle, ours: http.Request) -> http.Response | None:
    of, colon, verb = ours.params[name].rpartition(":")
    if not colon:
        raise MethodNotAllowedException
    ours.params = {**ours.params, name: of}  # Litestar keeps the parameters of a path and hands them out again
    described = verbs.get(verb)
    if described is not None:
        return await handle(described, ours)
    tally.UNROUTED.add(404)
    fault = next(iter(verbs.values())).fault or response_to
    return fault(ours, Refused("path.unknown"))


def _endpoint(
    pattern: str, method: str, status: int, answer: Callable[[http.Request], Awaitable[http.Response | None]]
) -> HTTPRouteHandler:
    @route(pattern.replace("}", ":str}"), http_method=cast("Any", method), status_code=status)
    async def endpoint(request: AnyRequest) -> Answer:
        ours = _ours(request)
        ours.params = request.path_params
        response = await answer(ours)
        return Answer(ours, response or CLIENT_GONE)

    return endpoint


def _ours(request: AnyRequest) -> http.Request:
    return cast("http.Scope", request.scope)["relay.request"]


def _allowed(methods: Mapping[str, set[str]], path: str) -> str:
    """The methods of the pattern that the router takes for `path`: the one with the most steps spelled out."""
    steps = _steps(path)
    matching = [pattern for pattern in methods if _matches(_steps(pattern), steps)]
    found = {"OPTIONS"}
    if matching:
        found |= methods[min(matching, key=lambda pattern: (pattern.count("{"), -len(pattern)))]
    if "GET" in found:
        found.add("HEAD")
    return ", ".join(sorted(found))


def _steps(path: str) -> list[str]:
    return [step for step in path.split("/") if step]


def _matches(pattern: list[str], steps: list[str]) -> bool:
    return len(pattern) == len(steps) and all(
        part == step or (part.startswith("{") and step.endswith(part.partition("}")[2]))
        for part, step in zip(pattern, steps, strict=True)
    )
