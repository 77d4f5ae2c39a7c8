"""llms-full.txt: the text that tells an agent every rule and every operation."""

from collections.abc import Sequence

from node import VERSION
from node.config import Settings
from node.describe.operations import callbacks, errors, groups, limits
from node.site.template import render
from node.text.payload import PROSE
from node.web.origin import OriginPolicy
from node.web.route import Route


def full_text(routes: Sequence[Route], settings: Settings) -> str:
    """The text about `routes`, all of which it describes."""
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
