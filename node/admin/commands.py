"""How a module adds its subcommands to `relay-node`: it defines `register(commands)`, and `cli.py` lists the module."""

import argparse
from collections.abc import Callable

from node.config import Settings
from node.run.validation import loaded

NO_SECRET = "none"  # noqa: S105 - it protects nothing
"""Placeholder for the node's secret, which may be on another host. No command issues a token or a signed URL."""

AS_OPERATOR = "set RELAY_REDIS_URL to one for relay-operator, the user for this in deploy/redis/users.acl"
"""What to do if the user of Redis may not do what a command needs."""

CONFIG_HELP = "settings file (TOML), instead of the one that RELAY_CONFIG names"
"""Help text of --config, which may precede or follow the name of a command."""

Run = Callable[[Settings, argparse.Namespace], int]


class Commands:
    """A set of subcommands: those of `relay-node`, or of one of its groups."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parsers = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(self, name: str, run: Run, meaning: str) -> argparse.ArgumentParser:
        """Add a command that calls `run`, whose result is the exit status. Return the parser of its arguments."""
        parser = self._parsers.add_parser(name, help=meaning, description=meaning)
        parser.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help=CONFIG_HELP)
        parser.set_defaults(run=run, settings=loaded, role="")
        return parser

    def group(self, name: str, meaning: str) -> "Commands":
        """Add a command that has subcommands of its own."""
        return Commands(self._parsers.add_parser(name, help=meaning, description=meaning))
