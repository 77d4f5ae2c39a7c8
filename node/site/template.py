"""The templates, and where the static files are."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

HERE = Path(__file__).parent
STATIC = HERE / "static"


class Templates:
    """The files of the templates folder, with what all of them may use."""

    def __init__(self, filters: Mapping[str, Callable[..., Any]] | None = None, **shared: Any) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=select_autoescape(enabled_extensions=("html", "xml", "atom"), default_for_string=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters |= filters or {}
        self._environment.globals |= shared

    def render(self, name: str, **values: Any) -> str:
        """A template with its values. What goes into .html, .xml and .atom is escaped."""
        return self._environment.get_template(name).render(values)
