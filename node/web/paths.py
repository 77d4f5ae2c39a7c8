"""Looks up the operations of a path, or of similar paths, for requests that no handler matched (404 and 405
answers)."""

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from node.common.refusal import Refused
from node.web.errors import response_to
from node.web.http import Fault
from node.web.route import Route

COMMON_WORDS = frozenset({"api", "v1"})
"""Path words that say nothing about what the client wants."""

MAX_WORDS = 8
"""Words of an unknown path that are compared. No documented path has more."""

MAX_NEAR = 3
"""Most operations that the refusal of an unknown path suggests."""

LLMS_TXT = "the node's llms.txt, which lists the operations"


class Paths:
    """Finds operations by path, with the same result as the router."""

    def __init__(self, routes: Iterable[Route], root: str = "") -> None:
        """`root`: the path prefix under which clients reach the node (`Settings.public_path`)."""
        self.root = root
        self._operations: dict[str, dict[str, Route]] = {}
        """Operations by path pattern, then by method."""
        for route in routes:
            self._operations.setdefault(route.path, {})[route.method] = route
        self._patterns = [(_segments(path), path) for path in self._operations if "{" in path]
        self.constant = frozenset(path.encode() for path in self._operations if "{" not in path)
        """Paths without parameters."""

    def allowed(self, path: str) -> str:
        """Return the methods of a path, as in `Allow`. The path `*` stands for the whole node (RFC 9110 §9.3.7) and
        gets the methods of all paths."""
        operations = self._operations.values() if path == "*" else (self._find(path),)
        found = {"OPTIONS", *(method for each in operations for method in each)}
        if "GET" in found:
            found.add("HEAD")
        return ", ".join(sorted(found))

    def fault(self, method: str, path: str) -> Fault:
        """Return the function with which the operation answers failures.

        If the path lacks this method, the function of one of its other operations is returned, and by default
        `response_to`. Operations that serve pages are skipped: a request that is refused before it reaches a handler
        gets no page.
        """
        operations = self._find(path)
        operation = operations.get(method)
        candidates = [operation] if operation else operations.values()
        return next((each.fault for each in candidates if each.fault and each.media_type != "text/html"), response_to)

    def unknown(self, method: str, path: str) -> Refused:
        """Return the refusal of a path that does not exist. It names the operations that share the most words with the
        path: the intended one is often among them."""
        shared = Counter(
            (route.method, route.path) for word in _words(path)[:MAX_WORDS] for route in self._having.get(word, ())
        )
        near = sorted(shared, key=lambda each: (-shared[each], each[0] != method, len(each[1])))
        named = ", ".join(f"{method} {self.root}{path}" for method, path in near[:MAX_NEAR])
        return Refused("path.unknown", where=f"{named} or {LLMS_TXT}" if named else LLMS_TXT)

    def is_page(self, path: str) -> bool:
        """Return whether the path serves an HTML page."""
        operation = self._find(path).get("GET")
        return operation is not None and operation.media_type == "text/html"

    @cached_property
    def _having(self) -> dict[str, list[Route]]:
        """Documented operations by the words of their paths. Plural words are also listed in the singular."""
        having: dict[str, list[Route]] = {}
        for route in self._documented():
            words = _words(route.path)
            for form in {word.removesuffix(ending) for word in words for ending in ("", "s", "es")}:
                having.setdefault(form, []).append(route)
        return having

    def _documented(self) -> Iterable[Route]:
        return (
            route
            for operations in self._operations.values()
            for route in operations.values()
            if not route.hidden and route.media_type != "text/html"
        )

    def _find(self, path: str) -> dict[str, Route]:
        """Return the operations at a path. If several patterns match, the one with the fewest parameters wins."""
        segments = _segments(path)
        exact = self._operations.get("/" + "/".join(segments))
        if exact is not None:
            return exact
        matching = [pattern for shape, pattern in self._patterns if _matches(shape, segments)]
        if not matching:
            return {}
        return self._operations[min(matching, key=lambda pattern: (pattern.count("{"), -len(pattern)))]


def _segments(path: str) -> list[str]:
    return [segment for segment in path.split("/") if segment]


def _words(path: str) -> list[str]:
    """Return the words in the fixed parts of a path, without duplicates."""
    words = path.replace(":", "/").split("/")
    return [word for word in dict.fromkeys(words) if word and "{" not in word and word not in COMMON_WORDS]


def _matches(pattern: list[str], segments: list[str]) -> bool:
    return len(pattern) == len(segments) and all(
        part == segment or (part.startswith("{") and segment.endswith(part.partition("}")[2]))
        for part, segment in zip(pattern, segments, strict=True)
    )
