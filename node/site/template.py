"""Renders the templates. Values in .html, .xml and .atom are escaped; the other files are plain text."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from node.site.filters import FILTERS


class Templates:
    """Renders the templates of folders; `shown` changes each value before it is escaped.

    `root` is the path below which browsers find the node (`Settings.public_path`); every template has it.
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
    """The templates of the public pages, for a node at this path of its host. Compiled once for all callers."""
    return Templates(FOLDER, root=root)


def render(name: str, /, **values: Any) -> str:
    """Render a template that links to no path, or gets the root as a value."""
    return templates_at("").render(name, **values)
