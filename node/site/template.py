"""Renders the templates. What goes into .html, .xml and .atom is escaped; the other files are plain text."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from node.site.filters import FILTERS


class Templates:
    """Renders what is in a folder; `shown` changes each value before it is escaped.

    `root` is the path below which a browser finds the node's paths (`Settings.public_path`); every template has it.
    """

    def __init__(self, *folders: Path, shown: Callable[[Any], Any] | None = None, root: str = "") -> None:
        self._environment = Environment(
            loader=FileSystemLoader(folders),
            autoescape=select_autoescape(enabled_extensions=("html", "xml", "atom"), default_for_string=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
            finalize=shown,
        )
        self._environment.filters |= FILTERS
        cast("dict[str, object]", self._environment.globals)["root"] = root

    def render(self, name: str, /, **values: Any) -> str:
        """The template `name` with its values, all of which it must be given."""
        return self._environment.get_template(name).render(values)


FOLDER = Path(__file__).parent / "templates"


@cache
def templates_at(root: str) -> Templates:
    """Those of the public pages, for a node at this path of its host. Compiled once, whoever asks for them."""
    return Templates(FOLDER, root=root)


def render(name: str, /, **values: Any) -> str:
    """A text that links to no path, or is told the root."""
    return templates_at("").render(name, **values)
