"""Finds the hot routes: those that the router need not look for, which costs more than this."""

from collections.abc import Callable, Sequence, Set
from operator import itemgetter
from typing import Any, cast

from node.web.http import Request
from node.web.route import Route

PREFIX = b"/api/v1/"
"""Below it are the hot routes whose paths have parameters."""

_FIRST = 3
"""Number of the first step of a path after PREFIX."""


class HotRoutes:
    """Hot routes by their paths, as they are sent: another spelling is not found."""

    def __init__(self, routes: Sequence[Route], constant: Set[bytes]) -> None:
        """`constant`: the paths without a parameter, of other routes, too; none of them is a path with one."""
        self._constant = {(route.method, route.path.encode()): route for route in routes if "{" not in route.path}
        self._constant_paths = constant
        self._forms: dict[int, dict[tuple[int, ...], Callable[[list[str]], Any]]] = {}
        """The forms of such paths by their number of steps: the places of the steps that are no parameters, and what
        picks those steps."""
        self._by_steps: dict[tuple[str, int, Any], tuple[dict[str, int], Route]] = {}
        """By method, number of steps and what was picked: the places of the parameters, and the route."""
        for route in routes:
            if "{" in route.path:
                self._add(route)

    def find(self, request: Request, raw: bytes) -> Route | None:
        """The hot route of a request to the path `raw`, None if it has none; the request is given its parameters."""
        route = self._constant.get((request.method, raw))
        if route is None and raw.startswith(PREFIX) and len(raw) == len(request.path):  # no escape in it
            steps = request.path.split("/")
            for pick in self._forms.get(len(steps), {}).values():
                found = self._by_steps.get((request.method, len(steps), pick(steps)))
                if found is not None and "" not in steps[_FIRST:] and raw not in self._constant_paths:
                    places, route = found
                    request.params = {name: steps[place] for name, place in places.items()}
                    break
        return route

    def _add(self, route: Route) -> None:
        steps = route.path.split("/")
        if not route.path.startswith(PREFIX.decode()):
            raise ValueError(f"{route.path} cannot be hot: it has parameters and is not below {PREFIX.decode()}")
        places = {step.strip("{}"): place for place, step in enumerate(steps) if step.startswith("{")}
        fixed = tuple(place for place in range(_FIRST, len(steps)) if place not in places.values())
        pick = cast("Callable[[list[str]], Any]", itemgetter(*fixed))
        self._forms.setdefault(len(steps), {})[fixed] = pick
        self._by_steps[route.method, len(steps), pick(steps)] = places, route
