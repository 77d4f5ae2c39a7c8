"""The documents that describe the node to programs: OpenAPI, JSON Schema, llms.txt, robots.txt, the mark.

All are made from the route tables, the catalogue of errors and the settings, once, when the first is
asked for: what they say is what the code does. Nothing that users wrote is in them.
"""

from collections.abc import Sequence
from functools import cache, partial

import msgspec

from node.config import Settings
from node.describe import llms
from node.describe.openapi import Error, ValidationError, described, document, types_of
from node.describe.reference import reference_routes
from node.site.assets import STATIC
from node.site.page import Pages
from node.web.document import Document
from node.web.http import Request, Response
from node.web.json_schema import DRAFT, Schemas
from node.web.route import Route

OPENAPI = ("/openapi.json", "/openapi-3.0.json")

TEXT = "text/plain; charset=utf-8"

LISTED = (
    ("/openapi.json", "application/json", "OpenAPI 3.0.3 description of every operation"),
    ("/openapi-3.0.json", "application/json", "The same OpenAPI 3.0.3 description"),
    ("/schema.json", "application/json", "JSON Schema of every body and record"),
    ("/llms.txt", TEXT, "What the node is and where to read on"),
    ("/llms-full.txt", TEXT, "Everything an agent needs to use the node, in one text"),
    ("/robots.txt", TEXT, "What crawlers may fetch"),
    ("/favicon.svg", "image/svg+xml", "The node's mark"),
)


def discovery_routes(routes: Sequence[Route], settings: Settings) -> list[Route]:
    """The routes of the documents about `routes`, and about themselves (SPEC 4.8)."""

    @cache
    def documents() -> dict[str, Document]:
        # A process that starts is wanted for other things first, and most never need these.
        bodies = _bodies([*routes, *own], settings)
        return {path: Document(bodies[path], media_type) for path, media_type, _ in LISTED}

    async def send(path: str, request: Request) -> Response:
        return documents()[path].answer(request)

    own = [
        Route(
            method="GET",
            path=path,
            handler=partial(send, path),
            summary=summary,
            tag="discovery",
            media_type=media_type.partition(";")[0],
        )
        for path, media_type, summary in LISTED
    ]
    return [*own, *reference_routes(described([*routes, *own]), settings, Pages(settings))]


def _bodies(routes: Sequence[Route], settings: Settings) -> dict[str, bytes]:
    base = settings.public_url
    shown = described(routes)
    openapi = document(shown, settings.limits, base)
    return {
        **dict.fromkeys(OPENAPI, msgspec.json.encode(openapi)),
        "/schema.json": _schema(shown, base),
        "/llms.txt": llms.short(shown, settings).encode(),
        "/llms-full.txt": llms.full(shown, settings).encode(),
        "/robots.txt": llms.robots(base).encode(),
        "/favicon.svg": (STATIC / "mark.svg").read_bytes(),
    }


def _schema(routes: Sequence[Route], base: str) -> bytes:
    definitions = Schemas([*types_of(routes), Error, ValidationError]).definitions
    return msgspec.json.encode(
        {"$schema": DRAFT, "$id": f"{base}/schema.json", "title": "Relay node", "$defs": definitions}
    )
