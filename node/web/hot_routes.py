"""Finds the hot routes, at lower cost than the router."""

from collections.abc import Callable, Sequence, Set
from operator import itemgetter
from typing import Any, cast

from node.web.http import Request
from node.web.route import Route

PREFIX = b"/api/v1/"
"""Path prefix of all hot routes with parameters."""

_FIRST = 3
"""Index of the first path segment after PREFIX."""


class _Form:
    """The hot routes whose paths have the same number of segments, with parameters at the same positions."""

    def __init__(self, fixed: Sequence[int]) -> None:
        """`fixed`: the positions of the segments that are not parameters."""
        self.fixed_segments = cast("Callable[[list[str]], Any]", itemgetter(*fixed))
        self.routes: dict[tuple[str, Any], tuple[Route, dict[str, int]]] = {}
        """By method and fixed segments: the route, and the positions of its parameters."""


class HotRoutes:
    """Hot routes by their paths as sent. Other spellings of a path are not found."""

    def __init__(self, routes: Sequence[Route], constant: Set[bytes]) -> None:
        """`constant`: the paths of all routes without parameters. They never match a route with parameters."""
        self._constant = {(route.method, route.path.encode()): route for route in routes if "{" not in route.path}
        self._constant_paths = constant
        self._forms: dict[int, dict[tuple[int, ...], _Form]] = {}
        """By the number of segments and the positions of the fixed ones."""
        for route in routes:
            if "{" in route.path:
                self._add(route)

    def find(self, request: Request, raw: bytes) -> Route | None:
        """Return the hot route of a request to the path `raw`, and set the request's parameters; None without one."""
        route = self._constant.get((request.method, raw))
        if route is None and raw.startswith(PREFIX) and len(raw) == len(request.path):  # no escape in the path
            segments = request.path.split("/")
            for form in self._forms.get(len(segments), {}).values():
                found = form.routes.get((request.method, form.fixed_segments(segments)))
                if found is not None and "" not in segments[_FIRST:] and raw not in self._constant_paths:
                    route, positions = found
                    request.params = {name: segments[position] for name, position in positions.items()}
                    break
        return route

    def _add(self, route: Route) -> None:
        if not route.path.startswith(PREFIX.decode()):
            raise ValueError(f"{route.path} cannot be hot: it has parameters and is not below {PREFIX.decode()}")
        segments = route.path.split("/")
        positions = {each.strip("{}"): position for position, each in enumerate(segments) if each.startswith("{")}
        fixed = tuple(each for each in range(_FIRST, len(segments)) if each not in positions.values())
        form = self._forms.setdefault(len(segments), {}).setdefault(fixed, _Form(fixed))
        form.routes[route.method, form.fixed_segments(segments)] = route, positions
