"""The reference for people: the operations of the route tables, one page for each capability.

The pages are rendered here rather than by an OpenAPI viewer, which needs a megabyte of script, and inline styles.
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
"""What the pages say, for programs."""


def reference_routes(routes: Sequence[Route], current: CurrentSettings) -> list[Route]:
    """The reference of `routes`: an overview, and a page for each group of them."""
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
