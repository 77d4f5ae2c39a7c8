"""Prompts and recipes as they are on disk: Markdown with a title, a description and placeholders.

The first line of a file is its title (`# …`), the second paragraph its description. `{{base_url}}`
is filled in once, at start.
"""

from pathlib import Path

import msgspec

HERE = Path(__file__).parent


class MarkdownFile(msgspec.Struct, frozen=True):
    """One file."""

    name: str
    title: str
    description: str
    body: str


def load(folder: str, name: str, base_url: str) -> MarkdownFile:
    """`<folder>/<name>.md` for the node at `base_url`."""
    body = (HERE / folder / f"{name}.md").read_text(encoding="utf-8").replace("{{base_url}}", base_url)
    title, description, *_ = body.split("\n\n", 2)
    return MarkdownFile(name, title.removeprefix("# "), " ".join(description.split()), body)
