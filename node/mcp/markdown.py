"""The Markdown files of prompts and recipes.

The first line of a file is its title (`# …`), its second paragraph the description. `{{base_url}}` is filled in when
a file is loaded; the placeholder of a prompt's argument, when the prompt is read.
"""

from pathlib import Path

import msgspec

HERE = Path(__file__).parent


class MarkdownFile(msgspec.Struct, frozen=True):
    """A file, with its title and description taken out of the text."""

    name: str
    title: str
    description: str
    body: str
    """All of the text, title and description included."""


def load(folder: str, name: str, base_url: str) -> MarkdownFile:
    """`<folder>/<name>.md` for the node at `base_url`."""
    body = (HERE / folder / f"{name}.md").read_text(encoding="utf-8").replace("{{base_url}}", base_url)
    title, description, *_ = body.split("\n\n", 2)
    return MarkdownFile(name, title.removeprefix("# "), " ".join(description.split()), body)
