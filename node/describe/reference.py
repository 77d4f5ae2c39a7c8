"""The API reference for people: an overview, and one page for each group of operations.

The node renders the pages itself: an OpenAPI viewer would need a megabyte of script, and inline styles.
"""

from collections.abc import Sequence

import msgspec

from node.config import CurrentSettings, Settings
from node.describe.operations import errors, groups, limits, tags_of
from node.site.page import HTML, Pages
from node.web.document import Document, document_at
from node.web.route import Route

FIVE_MINUTES = b"public, max-age=300"

ALTERNATES = (("application/json", "/openapi.json"),)
"""Media type and path of the equivalent of the pages for programs."""


def reference_routes(routes: Sequence[Route], current: CurrentSettings) -> list[Route]:
    """Return the routes of the reference: an overview of `routes`, and a page for each group of them."""
    pages = Pages(current.now)
    made = current.derived(lambda settings: _documents(routes, settings, pages))
    return [
        pages.route(path, document_at(made, path), "API reference", hidden=True)
        for path in ("/reference", *(f"/reference/{tag}" for tag in tags_of(routes)))
    ]


def _documents(routes: Sequence[Route], settings: Settings, pages: Pages) -> dict[str, Document]:
    found = groups(routes, settings)
    overview = pages.render(
        "reference.html",
        "/reference",
        ALTERNATES,
        groups=found,
        errors=errors(),
        limits=limits(settings.limits),
        settings=settings,
    )
    bodies = {"/reference": overview}
    for group in found:
        path = f"/reference/{group.tag}"
        bodies[path] = pages.render("reference_group.html", path, ALTERNATES, group=group, indented=_indented)
    return {path: Document(body, HTML, FIVE_MINUTES, pages.headers) for path, body in bodies.items()}


def _indented(text: str) -> str:
    return msgspec.json.format(text, indent=2)
