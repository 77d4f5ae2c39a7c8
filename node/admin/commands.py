"""How a part of the node adds its subcommands to `relay-node`.

A module that has some offers `register(commands)`; `cli.py` names the modules.
"""

import argparse
from collections.abc import Callable

from node.config import Settings, load

Run = Callable[[Settings, argparse.Namespace], int]


class Commands:
    """A set of subcommands: those of `relay-node`, or of one of its groups."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parsers = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(self, name: str, run: Run, meaning: str) -> argparse.ArgumentParser:
        """A command that calls `run`, whose result is the exit status. Returns its parser, for arguments."""
        parser = self._parsers.add_parser(name, help=meaning, description=meaning)
        parser.set_defaults(run=run, settings=load)
        return parser

    def group(self, name: str, meaning: str) -> "Commands":
        """A command that has subcommands of its own."""
        return Commands(self._parsers.add_parser(name, help=meaning, description=meaning))
