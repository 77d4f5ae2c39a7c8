"""Renders the templates. What goes into .html, .xml and .atom is escaped; the other files are plain text."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from node.site.filters import FILTERS

_environment = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=select_autoescape(enabled_extensions=("html", "xml", "atom"), default_for_string=True),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_environment.filters |= FILTERS


def render(name: str, **values: Any) -> str:
    """The template `name` with its values, all of which it must be given."""
    return _environment.get_template(name).render(values)
