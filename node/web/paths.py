"""The paths of the operations, for requests that get to no handler: what a path takes, and how it refuses."""

from collections.abc import Iterable

from node.web.errors import response_to
from node.web.http import Fault
from node.web.route import Route


class Paths:
    """Which operations there are at a path, told as the router tells it."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._at: dict[str, dict[str, Route]] = {}
        for route in routes:
            self._at.setdefault(route.path, {})[route.method] = route
        self._patterns = [(_steps(path), path) for path in self._at if "{" in path]

    def allowed(self, path: str) -> str:
        """The methods that a path takes, as `Allow` lists them."""
        found = {"OPTIONS", *self._find(path)}
        if "GET" in found:
            found.add("HEAD")
        return ", ".join(sorted(found))

    def fault(self, method: str, path: str) -> Fault:
        """How an operation shows its failures; for a method that the path does not take, as another one there does.

        Pages are left out: who is refused before there is a handler is not shown one.
        """
        operations = self._find(path)
        asked = operations.get("GET" if method == "HEAD" else method)
        own = [asked] if asked else operations.values()
        return next((one.fault for one in own if one.fault and one.media_type != "text/html"), response_to)

    def is_page(self, path: str) -> bool:
        """Whether people read a page there."""
        operation = self._find(path).get("GET")
        return operation is not None and operation.media_type == "text/html"

    def _find(self, path: str) -> dict[str, Route]:
        """The operations of the pattern that the router takes for `path`: the one with the most steps spelled out."""
        steps = _steps(path)
        exact = self._at.get("/" + "/".join(steps))
        if exact is not None:
            return exact
        matching = [pattern for shape, pattern in self._patterns if _matches(shape, steps)]
        return self._at[min(matching, key=lambda pattern: (pattern.count("{"), -len(pattern)))] if matching else {}


def _steps(path: str) -> list[str]:
    return [step for step in path.split("/") if step]


def _matches(pattern: list[str], steps: list[str]) -> bool:
    return len(pattern) == len(steps) and all(
        part == step or (part.startswith("{") and step.endswith(part.partition("}")[2]))
        for part, step in zip(pattern, steps, strict=True)
    )
