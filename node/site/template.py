"""The templates, and where the static files are."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

HERE = Path(__file__).parent
STATIC = HERE / "static"

_environment = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=select_autoescape(enabled_extensions=("html", "xml", "atom"), default_for_string=True),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)


def render(name: str, **values: Any) -> str:
    """A template with its values. What goes into .html, .xml and .atom is escaped."""
    return _environment.get_template(name).render(values)


def share(**values: Any) -> None:
    """Values and functions that every template may use."""
    _environment.globals |= values
