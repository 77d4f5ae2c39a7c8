"""Litestar's router, made once in a process for all nodes with the same table of routes.

Tests start thousands of nodes in their process, and to register the routes takes nine tenths of such a start. What
serves a request is the router of `node.web.router` all the same; only whose routes it serves is looked up.
"""

from collections.abc import Iterable
from contextvars import ContextVar
from functools import partial
from typing import cast

from msgspec import structs

from node.web import http
from node.web.errors import response_to
from node.web.paths import Paths
from node.web.route import Route
from node.web.router import Handle, router

Place = tuple[str, str]
"""Method and path."""


class _Served:
    """What one node gave the router."""

    def __init__(self, routes: dict[Place, Route], handle: Handle, paths: Paths, missing: http.Fault) -> None:
        self.routes = routes
        self.handle = handle
        self.paths = paths
        self.missing = missing


class _AnyPaths:
    """The paths of the node that serves the request."""

    def allowed(self, path: str) -> str:
        return _serving.get().paths.allowed(path)

    def fault(self, method: str, path: str) -> http.Fault:
        return _serving.get().paths.fault(method, path)


_serving: ContextVar[_Served] = ContextVar("serving")
_made: dict[tuple[tuple[Place, int], ...], http.ASGIApp] = {}
"""Routers by all that they do not look up."""


def shared_router(
    routes: Iterable[Route], handle: Handle, paths: Paths, missing: http.Fault = response_to
) -> http.ASGIApp:
    """Stands for `router`."""
    given = {(route.method, route.path): route for route in routes}
    served = _Served(given, handle, paths, missing)
    table = tuple((place, route.status) for place, route in given.items())
    if table not in _made:
        # Both belong to a node, which would stay for as long as the router.
        blank = [structs.replace(route, handler=_no_handler, fault=partial(_fault, at)) for at, route in given.items()]
        _made[table] = router(blank, _handle, cast("Paths", _AnyPaths()), _missing)
    made = _made[table]

    async def app(scope: http.Scope, receive: http.Receive, send: http.Send) -> None:
        _serving.set(served)
        await made(scope, receive, send)

    return app


async def _handle(route: Route, request: http.Request) -> http.Response | None:
    served = _serving.get()
    return await served.handle(served.routes[route.method, route.path], request)


def _fault(place: Place, request: http.Request, failure: Exception) -> http.Response:
    return (_serving.get().routes[place].fault or response_to)(request, failure)


def _missing(request: http.Request, failure: Exception) -> http.Response:
    return _serving.get().missing(request, failure)


async def _no_handler(request: http.Request) -> http.Response:
    raise NotImplementedError("the router calls the handlers of the node that serves the request")
