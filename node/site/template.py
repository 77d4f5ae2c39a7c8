"""Renders the templates. What goes into .html, .xml and .atom is escaped; the other files are plain text."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from node.site.filters import FILTERS


class Templates:
    """Renders what is in a folder; `shown` changes each value before it is escaped."""

    def __init__(self, *folders: Path, shown: Callable[[Any], Any] | None = None) -> None:
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

    def render(self, name: str, /, **values: Any) -> str:
        """The template `name` with its values, all of which it must be given."""
        return self._environment.get_template(name).render(values)


FOLDER = Path(__file__).parent / "templates"
render = Templates(FOLDER).render
"""Renders the templates of the public pages."""
