"""The Markdown files of the recipes and of MCP's prompts.

The first line of a file is its title (`# …`), and its second paragraph the description. `{{base_url}}` is filled in
when a file is loaded. The placeholder of a prompt's argument is filled in when the prompt is read.
"""

from functools import cache
from pathlib import Path

import msgspec

RECIPES = (
    "http-curl",
    "python",
    "typescript",
    "generated-clients",
    "sign-a-request",
    "verify-a-callback",
    "worker",
    "inbox",
    "langgraph",
    "crewai",
    "autogen",
    "openai-agents",
    "claude-mcp-config",
)
"""The recipes in the order in which they are shown."""


class MarkdownFile(msgspec.Struct, frozen=True):
    """A file, and its title and description, extracted from its text."""

    name: str
    title: str
    description: str
    body: str
    """The whole text, including title and description."""


@cache
def load(folder: Path, name: str, base_url: str) -> MarkdownFile:
    """Return `<name>.md` of the folder, filled in for the node at `base_url`."""
    body = (folder / f"{name}.md").read_text(encoding="utf-8").replace("{{base_url}}", base_url)
    title, description, *_ = body.split("\n\n", 2)
    return MarkdownFile(name, title.removeprefix("# "), " ".join(description.split()), body)


def recipes(base_url: str) -> list[MarkdownFile]:
    """Return all recipes, filled in for the node at `base_url`."""
    return [load(Path(__file__).parent, name, base_url) for name in RECIPES]
