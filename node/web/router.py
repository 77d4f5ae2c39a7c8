"""Finds the routes that are not hot, with Litestar's router.

Litestar only matches the path. The route is then served in the same way as a hot route. A request without a route is
answered here.
"""

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from litestar import Litestar, Response, asgi
from litestar.exceptions import NotFoundException
from litestar.handlers import ASGIRouteHandler
from litestar.types import Receive, Scope, Send

from node.common.refusal import Refused
from node.common.unused_package import as_if_not_installed
from node.web import http
from node.web.errors import forget_frames, response_to
from node.web.paths import Paths
from node.web.route import Route

WITH_PARAMETER_LAST = re.compile(r"(.*\{(\w+)\})(?::(\w+))?")
"""Matches a path that ends in a parameter, optionally with a verb: `…{id}:cancel`. Litestar's patterns cannot contain a
colon, so one Litestar pattern stands for the path with all its verbs. The groups are that pattern, the parameter's
name, and the verb."""

FOUND = "relay.found"
"""Scope key under which Litestar's handlers leave the pattern that matched, or an exception."""


class PathPattern:
    """The operations behind one Litestar pattern."""

    def __init__(self, name: str, paths: Paths) -> None:
        self._name = name
        """Name of the parameter at the end, after which a verb may follow."""
        self._paths = paths
        self._by_method: dict[str, dict[str, Route]] = {}
        """Routes by method and verb. The verb is empty for the path alone."""
        self._verbs: set[str] = set()

    def add(self, route: Route, verb: str) -> None:
        self._by_method.setdefault(route.method, {})[verb] = route
        if verb:
            self._verbs.add(verb)

    def find(self, request: http.Request) -> Route | http.Response | None:
        """Return the operation for a request, or the answer that there is no such verb; None for an unknown method."""
        by_verb = self._by_method.get(request.method)
        if by_verb is None:
            return None
        value, colon, last = request.params[self._name].rpartition(":") if self._verbs else ("", "", "")
        verb = last if colon else ""
        if verb and verb in by_verb:
            request.params[self._name] = value
            return by_verb[verb]
        if verb in self._verbs or not (colon or "" in by_verb):
            return None
        if "" in by_verb:
            return by_verb[""]
        fault = next(iter(by_verb.values())).fault or response_to
        return fault(request, self._paths.unknown(request.method, request.path))


class Router:
    """The routes of a process that are not hot, and the answers to requests without a route."""

    def __init__(self, routes: Iterable[Route], paths: Paths, missing: http.Fault = response_to) -> None:
        """`missing`: makes the answer to requests for unknown paths."""
        self._paths = paths
        self._missing = missing
        self._patterns: dict[str, PathPattern] = {}
        """Operations by Litestar's pattern: the path without a verb."""
        for each in routes:
            match = WITH_PARAMETER_LAST.fullmatch(each.path)
            pattern, name, verb = match.groups("") if match else (each.path, "", "")
            self._patterns.setdefault(pattern, PathPattern(name, paths)).add(each, verb)
        self._litestar = _litestar_of(tuple(self._patterns))

    async def find(self, request: http.Request) -> Route | http.Response:
        """Return the route of a request, and set the request's parameters; or return the answer if there is no route.

        OPTIONS is answered here: Litestar would name only the methods of one handler, and never HEAD.
        """
        if request.method == "OPTIONS" and (allowed := self._paths.allowed(request.path)) != "OPTIONS":
            return http.Response(204, b"", ((b"allow", allowed.encode()),))
        # No method, so that Litestar matches the parameters: an ASGI handler has the same ones for all methods.
        scope: Any = {"type": "http", "path": request.path, "query_string": b"", "headers": []}
        await self._litestar(scope, _receive, _send)
        found: str | Exception = scope[FOUND]
        if isinstance(found, Exception):
            if isinstance(found, NotFoundException):
                response = self._missing(request, self._paths.unknown(request.method, request.path))
            else:
                response = response_to(request, found)
            forget_frames(found)
            return response
        request.params = dict(scope["path_params"])  # a copy: Litestar caches the dictionary and returns it again
        return self._patterns[found].find(request) or self._other_methods(request)

    def _other_methods(self, request: http.Request) -> http.Response:
        """Return the answer to a request for a path that has only other methods."""
        allowed = self._paths.allowed(request.path)
        fault = self._paths.fault(request.method, request.path)
        response = fault(request, Refused("method.unknown", allowed=allowed))
        response.headers = [*response.headers, (b"allow", allowed.encode())]
        return response


@cache  # takes some 40 ms and depends on nothing of the node; tests start many nodes in one process
def _litestar_of(patterns: tuple[str, ...]) -> Litestar:
    with as_if_not_installed("pydantic"):  # only needed for models, and the node has none: saves 6 MB
        return Litestar(
            route_handlers=list(map(_leaves, patterns)),
            exception_handlers={Exception: _leave_failure},
            openapi_config=None,
            logging_config=None,
        )


def _leaves(pattern: str) -> ASGIRouteHandler:
    """Return a Litestar handler that leaves the pattern in the scope and answers nothing."""

    @asgi(pattern.replace("}", ":str}"), copy_scope=False)
    async def leave(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        scope[FOUND] = pattern  # type: ignore[literal-required]

    return leave


def _leave_failure(request: Any, failure: Exception) -> Response[None]:
    request.scope[FOUND] = failure
    return Response(None)


async def _receive() -> Any:
    raise AssertionError("a path has no body")


async def _send(_message: Any) -> None:
    """Discard Litestar's answer to a failure."""
