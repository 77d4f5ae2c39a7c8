"""Renders the templates. Values in .html, .xml and .atom are escaped; the other files are plain text."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from node.site.filters import FILTERS


class Templates:
    """Renders the templates of folders. `shown` is applied to each value before it is escaped.

    `root` is the path below which browsers find the node (`Settings.public_path`), a global of every template.
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
        """Render the template `name`. All values that it uses must be given."""
        return self._environment.get_template(name).render(values)


FOLDER = Path(__file__).parent / "templates"


@cache
def templates_at(root: str) -> Templates:
    """Return the templates of the public pages, for a node at this path of its host. All callers share them."""
    return Templates(FOLDER, root=root)


def render(name: str, /, **values: Any) -> str:
    """Render a template that does not use the root, or gets it as a value."""
    return templates_at("").render(name, **values)
