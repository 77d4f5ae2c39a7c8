"""The documents that describe the node to programs: OpenAPI, JSON Schema, llms.txt, robots.txt, the icon.

They are generated from the route tables, the error catalogue and the settings, so they match the code. They contain no
content of users.
"""

from collections.abc import Sequence

import msgspec

from node import VERSION
from node.config import CurrentSettings, Settings
from node.describe.implied import bodies_of, described, types_of
from node.describe.openapi import Error, ValidationError, document
from node.describe.operations import callbacks, errors, groups, limits
from node.describe.reference import reference_routes
from node.recipes.markdown import recipes
from node.site.assets import STATIC
from node.site.template import render
from node.text.payload import PROSE
from node.web.document import Document, document_routes
from node.web.json_schema import DRAFT, Schemas
from node.web.origin import OriginPolicy
from node.web.route import Route

OPENAPI = ("/openapi.json", "/openapi-3.0.json")

TEXT = "text/plain; charset=utf-8"

LISTED = (
    ("/openapi.json", "application/json", "OpenAPI 3.0.3 description of every operation"),
    ("/openapi-3.0.json", "application/json", "The same OpenAPI 3.0.3 description"),
    ("/schema.json", "application/json", "JSON Schema of every body and record"),
    ("/llms.txt", TEXT, "What the node is, and where to read more"),
    ("/llms-full.txt", TEXT, "Everything an agent needs to use the node, in one text"),
    ("/robots.txt", TEXT, "What crawlers may fetch"),
    ("/favicon.svg", "image/svg+xml", "The node's icon"),
)


def discovery_routes(routes: Sequence[Route], current: CurrentSettings) -> list[Route]:
    """Return the routes of the documents, which describe `routes` and the documents' own routes (SPEC 4.8)."""
    made = current.derived(lambda settings: _documents(described([*routes, *own]), settings))
    own = document_routes("discovery", LISTED, made)
    return [*own, *reference_routes(described([*routes, *own]), current)]


def _documents(routes: Sequence[Route], settings: Settings) -> dict[str, Document]:
    base = settings.public_url
    bodies = {
        **dict.fromkeys(OPENAPI, msgspec.json.encode(document(routes, settings.limits, base))),
        "/schema.json": _schema(routes, base),
        "/llms.txt": render("llms.txt", base=base, recipes=recipes(base)).encode(),
        "/llms-full.txt": full_text(routes, settings).encode(),
        "/robots.txt": render("robots.txt", base=base, root=settings.public_path).encode(),
        "/favicon.svg": (STATIC / "mark.svg").read_bytes(),
    }
    return {path: Document(bodies[path], media_type) for path, media_type, _ in LISTED}


def full_text(routes: Sequence[Route], settings: Settings) -> str:
    """Render llms-full.txt, which describes every rule and operation for an agent."""
    return render(
        "llms-full.txt",
        base=settings.public_url,
        version=VERSION,
        node_id=settings.node_id,
        is_open=OriginPolicy(settings).is_open,
        groups=groups(routes, settings),
        callbacks=callbacks(routes),
        limits=limits(settings.limits),
        errors=errors(),
        prose=PROSE,
        settings=settings,
    )


def _schema(routes: Sequence[Route], base: str) -> bytes:
    definitions = Schemas([*types_of(routes), Error, ValidationError], bodies=bodies_of(routes)).definitions
    return msgspec.json.encode(
        {"$schema": DRAFT, "$id": f"{base}/schema.json", "title": "Relay node", "$defs": definitions}
    )
