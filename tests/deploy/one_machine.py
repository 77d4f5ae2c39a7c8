"""docs/one-machine.md as a list of commands."""

import re
from typing import NamedTuple

from tests.support.nodes import ROOT

PAGE = ROOT / "docs" / "one-machine.md"
FETCHES = "apt-get"
"""Marks the commands that need the internet and are run before the machine boots without a network."""


class Block(NamedTuple):
    """The commands between two fences, the heading above them, and whether a test runs them."""

    heading: str
    script: str
    is_run: bool


def blocks() -> list[Block]:
    """Return every block of commands, in the order of the page."""
    found: list[Block] = []
    heading = ""
    for match in re.finditer(
        r"^## ([^\n]+)$|^```sh( not run)?\n(.+?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    ):
        if match[1]:
            heading = match[1]
        else:
            found.append(Block(heading, match[3], not match[2]))
    return found


def written(path: str) -> str:
    """Return the text that the page writes into a file."""
    for block in blocks():
        here = re.search(rf"^cat >{re.escape(path)} <<'END'\n(.+?)^END$", block.script, re.MULTILINE | re.DOTALL)
        if here:
            return here[1]
    raise LookupError(path)
