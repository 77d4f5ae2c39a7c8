"""Makes the responses for pages: rendered templates with their headers, and a page for a request that failed."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from node import VERSION
from node.config import Settings
from node.site.assets import ASSETS, NO_CACHE
from node.site.template import templates_at
from node.web.accept import preferred
from node.web.document import revalidated
from node.web.errors import response_to
from node.web.http import Handler, Header, Request, Response
from node.web.route import OtherAnswer, Route

HTML = "text/html; charset=utf-8"
OWN_ORIGIN = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

PAGE_HEADERS: tuple[Header, ...] = (
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
"""Headers of every page of every node (DESIGN 6)."""

Alternate = tuple[str, str]
"""Media type and path of another representation of a page."""

HEADLINES = {
    "path.unknown": "There is nothing here",
    "thread.unknown": "No such thread",
    "task.unknown": "No such task",
    "agent.unknown": "No such agent",
    "inbox.unknown": "No such inbox",
    "request.invalid": "This request is not valid",
    "limit.exceeded": "A little slower, please",
    "limit.throughput": "A little slower, please",
    "store.unavailable": "The board is out of reach",
    "store.unknown": "The board is out of reach",
    "store.busy": "Too much at once",
    "node.overloaded": "Too much at once",
}
"""Headings of the page for a failed request, by error code."""


class Pages:
    """Makes the pages of one node."""

    def __init__(self, settings: Settings) -> None:
        base, root = settings.public_url, settings.public_path
        self._render = templates_at(root).render
        self._shared = {
            "asset": partial(ASSETS.url, root=root),
            "base": base,
            "host": base.partition("://")[2],
            "version": VERSION,
        }
        self.headers: tuple[Header, ...] = ((b"content-security-policy", _policies(root).encode()), *PAGE_HEADERS)
        """Headers of every page. They allow only the node's own scripts and styles, and nothing from elsewhere."""

    def render(self, template: str, path: str, alternates: Sequence[Alternate] = (), **values: Any) -> bytes:
        """Render a page, feed or fragment."""
        return self._render(template, **self._shared, path=path, alternates=alternates, **values).encode()

    def answer(
        self,
        request: Request,
        template: str,
        alternates: Sequence[Alternate] = (),
        *,
        media_type: str = HTML,
        caching: bytes = NO_CACHE,
        **values: Any,
    ) -> Response:
        """Return a page made for this request."""
        body = self.render(template, request.path, alternates, **values)
        return revalidated(request, body, media_type, caching, self.headers)

    def route(
        self,
        path: str,
        handler: Handler,
        summary: str,
        query: type[msgspec.Struct] | None = None,
        media_type: str = "text/html",
        *,
        also: tuple[OtherAnswer, ...] = (),
        limit: str = "",
        hidden: bool = False,
    ) -> Route:
        """Return the route of a page or of another rendered document. Failures of an HTML route are pages, too.

        `limit`: the class of the limit in which some of its requests count, such as searches.
        """
        return Route(
            method="GET",
            path=path,
            handler=handler,
            summary=summary,
            tag="pages",
            query=query,
            media_type=media_type,
            has_etag=True,
            fault=self.failure if media_type == "text/html" else None,
            also=also,
            limit=limit,
            hidden=hidden,
        )

    def missing(self, request: Request, failure: Exception) -> Response:
        """Return the answer for an unknown path: a page for a browser, JSON for other clients and below /api/."""
        wanted = preferred(request.header(b"accept"), "application/json", "text/html")
        is_browser = request.method == "GET" and wanted == "text/html"
        respond = self.failure if is_browser and not request.path.startswith("/api/") else response_to
        response = respond(request, failure)
        response.headers = [*response.headers, (b"vary", b"Accept")]
        return response

    def failure(self, request: Request, failure: Exception) -> Response:
        """Return the response of `node.web.errors` as a page, with the same status and headers."""
        response = response_to(request, failure)
        kept = [(name, value) for name, value in response.headers if name != b"content-type"]
        code = dict(kept).get(b"x-error-code", b"").decode()
        error: dict[str, Any] = msgspec.json.decode(response.body)
        body = self.render(
            "error.html",
            request.path,
            status=response.status,
            headline=HEADLINES.get(code, "That did not work"),
            sentence=error.get("error") or "; ".join(issue["msg"] for issue in error["detail"]),
            code=code,
        )
        own = ((b"content-type", HTML.encode()), (b"cache-control", NO_CACHE))
        return Response(response.status, body, (*own, *self.headers, *kept))


def _policies(root: str) -> str:
    """Return two policies, both of which apply: only files of this origin, and no files that clients uploaded.

    The uploaded files are below `/blobs/`. The second policy allows any host, since the node does not know by which
    name a browser reads the page; the first one restricts the host.
    """
    files = f"*:*{root}/static/"
    return (
        f"{OWN_ORIGIN}, script-src {files}; style-src {files}; font-src {files}; img-src {files} *:*{root}/favicon.svg"
    )
