"""The reference for people: the operations of the route tables, a page for each capability.

Made by hand rather than by a renderer of OpenAPI: those need a script of a megabyte and more, and
styles inline. What the pages say comes from the same data as the OpenAPI document.
"""

from collections.abc import Sequence
from functools import cache, partial

import msgspec

from node.config import Settings
from node.describe.openapi import entry_of
from node.describe.operations import Group, groups, limits, tags_of
from node.site.page import HTML, PAGE_HEADERS, Pages
from node.web.document import Document
from node.web.errors import CATALOGUE
from node.web.http import Request, Response
from node.web.route import Route

MINUTES = b"public, max-age=300"

ALTERNATES = (("application/json", "/openapi.json"),)
"""What the pages say, for programs."""


def reference_routes(routes: Sequence[Route], settings: Settings, pages: Pages) -> list[Route]:
    """The reference of `routes`: an overview, and a page for each group of them."""

    @cache
    def documents() -> dict[str, Document]:
        found = groups(routes, settings)
        overview = {"/reference": _overview(found, settings, pages)}
        return overview | {f"/reference/{group.tag}": _group(group, found, pages) for group in found}

    async def send(path: str, request: Request) -> Response:
        return documents()[path].answer(request)

    return [
        Route(
            method="GET",
            path=path,
            handler=partial(send, path),
            summary="API reference",
            tag="pages",
            media_type="text/html",
            hidden=True,
        )
        for path in ("/reference", *(f"/reference/{tag}" for tag in tags_of(routes)))
    ]


def _overview(found: list[Group], settings: Settings, pages: Pages) -> Document:
    errors = sorted((entry_of(code).status, code, entry_of(code).sentence) for code in ("request.invalid", *CATALOGUE))
    body = pages.render(
        "reference.html",
        "/reference",
        ALTERNATES,
        groups=found,
        errors=errors,
        limits=limits(settings.limits),
        settings=settings,
    )
    return Document(body, HTML, MINUTES, PAGE_HEADERS)


def _group(group: Group, found: list[Group], pages: Pages) -> Document:
    path = f"/reference/{group.tag}"
    body = pages.render("reference_group.html", path, ALTERNATES, groups=found, group=group, pretty=_pretty)
    return Document(body, HTML, MINUTES, PAGE_HEADERS)


def _pretty(text: str) -> str:
    return msgspec.json.format(text, indent=2)
