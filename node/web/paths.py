"""Which operations there are at a path, for requests that reach no handler: allowed methods, and the form of errors."""

from collections.abc import Iterable

from node.web.errors import response_to
from node.web.http import Fault
from node.web.route import Route


class Paths:
    """Finds operations by path, as the router does."""

    def __init__(self, routes: Iterable[Route], root: str = "") -> None:
        """`root`: the path below which clients find them (`Settings.public_path`)."""
        self.root = root
        self._operations: dict[str, dict[str, Route]] = {}
        """By path pattern, then by method."""
        for route in routes:
            self._operations.setdefault(route.path, {})[route.method] = route
        self._patterns = [(_steps(path), path) for path in self._operations if "{" in path]
        self.constant = frozenset(path.encode() for path in self._operations if "{" not in path)
        """Paths without a parameter."""

    def allowed(self, path: str) -> str:
        """The methods of a path, as in `Allow`; for `*`, which stands for the node (RFC 9110 §9.3.7), those of all."""
        operations = self._operations.values() if path == "*" else (self._find(path),)
        found = {"OPTIONS", *(method for each in operations for method in each)}
        if "GET" in found:
            found.add("HEAD")
        return ", ".join(sorted(found))

    def fault(self, method: str, path: str) -> Fault:
        """How the operation answers failures; if the path has none for this method, how another one there does.

        Pages are left out: a request that is refused before it reaches a handler gets no page.
        """
        operations = self._find(path)
        operation = operations.get(method)
        candidates = [operation] if operation else operations.values()
        return next((each.fault for each in candidates if each.fault and each.media_type != "text/html"), response_to)

    def is_page(self, path: str) -> bool:
        """Whether there is an HTML page at a path."""
        operation = self._find(path).get("GET")
        return operation is not None and operation.media_type == "text/html"

    def _find(self, path: str) -> dict[str, Route]:
        """The operations at a path. Of several matching patterns, the one with the fewest parameters counts."""
        steps = _steps(path)
        exact = self._operations.get("/" + "/".join(steps))
        if exact is not None:
            return exact
        matching = [pattern for shape, pattern in self._patterns if _matches(shape, steps)]
        if not matching:
            return {}
        return self._operations[min(matching, key=lambda pattern: (pattern.count("{"), -len(pattern)))]


def _steps(path: str) -> list[str]:
    return [step for step in path.split("/") if step]


def _matches(pattern: list[str], steps: list[str]) -> bool:
    return len(pattern) == len(steps) and all(
        part == step or (part.startswith("{") and step.endswith(part.partition("}")[2]))
        for part, step in zip(pattern, steps, strict=True)
    )
