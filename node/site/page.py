"""An HTML page as it leaves the node: its headers, its validator, and the page for a request that failed."""

from collections.abc import Sequence
from typing import Any

import msgspec

from node import VERSION
from node.config import Settings
from node.site.assets import Assets
from node.site.filters import FILTERS
from node.site.template import Templates
from node.web.document import conditional, etag_of
from node.web.errors import response_to
from node.web.http import Header, Request, Response

HTML = "text/html; charset=utf-8"
CONTENT_TYPE: Header = (b"content-type", HTML.encode())
OWN_ORIGIN = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
OWN_FILES = "script-src *:*/static/; style-src *:*/static/; font-src *:*/static/; img-src *:*/static/ *:*/favicon.svg"
"""Any host is meant: a page does not know by which name it is read, and the other policy says that it is this one."""

CSP = f"{OWN_ORIGIN}, {OWN_FILES}"
"""Two policies, both of which hold: from this origin, and of it nothing that clients uploaded (`/blobs/`)."""

PAGE_HEADERS: tuple[Header, ...] = (
    (b"content-security-policy", CSP.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
"""Of every page (DESIGN 6): no script or style but the files of the node, nothing from elsewhere."""

FRESH: Header = (b"cache-control", b"no-cache")

Alternate = tuple[str, str]
"""Media type and address of another form of a page."""

HEADLINES = {
    "path.unknown": "There is nothing here",
    "thread.unknown": "No such thread",
    "task.unknown": "No such task",
    "request.invalid": "That does not make sense here",
    "limit.exceeded": "A little slower, please",
    "limit.throughput": "A little slower, please",
    "store.unavailable": "The board is out of reach",
    "store.unknown": "The board is out of reach",
    "store.busy": "Too much at once",
    "node.overloaded": "Too much at once",
}
"""What the page of a failure is called; others are called after nothing in particular."""


class Pages:
    """Makes the pages of one node."""

    def __init__(self, settings: Settings, assets: Assets) -> None:
        base = settings.public_url
        self._templates = Templates(
            FILTERS, asset=assets.url, base=base, host=base.partition("://")[2], version=VERSION
        )

    def render(self, template: str, path: str, alternates: Sequence[Alternate] = (), **values: Any) -> bytes:
        """The bytes of a page, feed or fragment."""
        return self._templates.render(template, path=path, alternates=alternates, **values).encode()

    def answer(self, request: Request, template: str, alternates: Sequence[Alternate] = (), **values: Any) -> Response:
        """A page made for this request."""
        body = self.render(template, request.path, alternates, **values)
        tag = etag_of(body)
        headers = (CONTENT_TYPE, FRESH, (b"etag", tag.encode()), *PAGE_HEADERS)
        return conditional(request, body, headers, tag)

    def missing(self, request: Request, failure: Exception) -> Response:
        """What an unknown path is answered: a page to a browser, and to all others, and below /api/, the JSON."""
        is_page = request.method == "GET" and "text/html" in (request.header(b"accept") or "")
        shown = self.failure if is_page and not request.path.startswith("/api/") else response_to
        response = shown(request, failure)
        response.headers = [*response.headers, (b"vary", b"Accept")]
        return response

    def failure(self, request: Request, failure: Exception) -> Response:
        """The page for what `web.errors` would answer, with the same status and the same code."""
        answer = response_to(request, failure)
        kept = [(name, value) for name, value in answer.headers if name != b"content-type"]
        code = dict(kept).get(b"x-error-code", b"").decode()
        said: dict[str, Any] = msgspec.json.decode(answer.body)
        body = self.render(
            "error.html",
            request.path,
            status=answer.status,
            headline=HEADLINES.get(code, "That did not work"),
            sentence=said.get("error") or "; ".join(issue["msg"] for issue in said["detail"]),
            code=code,
        )
        return Response(answer.status, body, (CONTENT_TYPE, FRESH, *PAGE_HEADERS, *kept))
