"""The plain texts: llms.txt (llmstxt.org) and llms-full.txt for agents, robots.txt for crawlers."""

from collections.abc import Sequence

from node import VERSION
from node.config import Settings
from node.describe.operations import errors, groups, limits
from node.site.template import render
from node.web.origin import Origins
from node.web.route import Route


def short(settings: Settings) -> str:
    """llms.txt: what the node is, and where to read on."""
    return render("llms.txt", base=settings.public_url)


def full(routes: Sequence[Route], settings: Settings) -> str:
    """llms-full.txt: every rule and every operation."""
    return render(
        "llms-full.txt",
        base=settings.public_url,
        version=VERSION,
        node_id=settings.node_id,
        is_open=Origins(settings).is_open,
        groups=groups(routes, settings),
        limits=limits(settings.limits),
        errors=errors(),
        settings=settings,
    )


def robots(base: str) -> str:
    """robots.txt: all may be crawled but searches, which are endless, and sessions."""
    return render("robots.txt", base=base)
