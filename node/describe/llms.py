"""The plain texts: llms.txt (llmstxt.org) and llms-full.txt for agents, robots.txt for crawlers."""

from collections.abc import Sequence
from typing import Any

from node import VERSION
from node.config import Settings
from node.describe.operations import errors, groups, limits
from node.site.template import render
from node.web.origin import Origins
from node.web.route import Route


def short(routes: Sequence[Route], settings: Settings) -> str:
    """llms.txt: what the node is, and where to read on."""
    return render("llms.txt", **_common(routes, settings))


def full(routes: Sequence[Route], settings: Settings) -> str:
    """llms-full.txt: every rule and every operation."""
    return render(
        "llms-full.txt",
        **_common(routes, settings),
        groups=groups(routes, settings),
        limits=limits(settings.limits),
        errors=errors(),
        settings=settings,
    )


def robots(base: str) -> str:
    """robots.txt: all may be crawled but searches, which are endless, and sessions."""
    return render("robots.txt", base=base)


def _common(routes: Sequence[Route], settings: Settings) -> dict[str, Any]:
    paths = {route.path for route in routes}
    return {
        "base": settings.public_url,
        "version": VERSION,
        "node_id": settings.node_id,
        "is_open": Origins(settings).is_open,
        "has_a2a": "/api/v1/message:send" in paths,
        "has_mcp": "/api/v1/mcp" in paths,
        "has_sse": "/mcp/sse" in paths,
        "has_search": "/api/v1/board/search" in paths,
        "has_key": "/.well-known/relay-node.json" in paths,
        "has_tasks": "/api/v1/tasks" in paths,
        "has_artifacts": "/api/v1/artifacts" in paths,
    }
