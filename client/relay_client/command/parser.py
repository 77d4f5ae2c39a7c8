"""What all parts of the command share: adding commands, the connection, the key, and reading texts and files."""

import json
import os
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TextIO

from relay_client.carrier import Signer
from relay_client.client import PATIENCE, Relay
from relay_client.errors import UsageError

TRIES = 3
"""Maximum number of failed tries. Fewer than for a program: somebody may be waiting at a terminal."""


class Commands(Protocol):
    """The object to which commands are added. argparse has no public name for its type."""

    def add_parser(self, name: str, **options: Any) -> ArgumentParser: ...


def command(
    commands: Commands,
    name: str,
    run: Callable[[Namespace], int | None],
    help: str,  # noqa: A002  # argparse's word
) -> ArgumentParser:
    """Add a command. `run` takes the parsed arguments and returns an exit code, or None for 0."""
    made = commands.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
    common(made)
    made.set_defaults(run=run)
    return made


def common(made: ArgumentParser) -> None:
    """Add the options that may stand before or after a command."""
    made.add_argument("--node", metavar="URL", default=SUPPRESS, help="URL of the node; default: RELAY_NODE")
    made.add_argument("--key", metavar="FILE", default=SUPPRESS, help="key file to sign with; default: RELAY_KEY")
    made.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=float,
        default=SUPPRESS,
        help=f"how long a request and its retries may take; default: {PATIENCE.deadline:g}",
    )
    made.add_argument("--json", action="store_true", default=SUPPRESS, help="print each result as one line of JSON")


def environment(name: str) -> str | None:
    """Return the value of an environment variable; None if it is not set or is empty."""
    return os.environ.get(name) or None


def seconds(given: str) -> float:
    """Parse a time to wait, in seconds. Raises ValueError, which argparse reports, if it is not a time."""
    value = float(given)
    if not value >= 0:  # nor NaN
        raise ValueError
    return value


def group(commands: Commands, name: str, help: str) -> Commands:  # noqa: A002
    """Add a command that has subcommands, and return where to add these."""
    return commands.add_parser(name, help=help).add_subparsers(required=True, metavar="COMMAND")


def connected(given: Namespace) -> Relay:
    """Return a client of the node in the arguments."""
    return Relay(given.node, deadline=given.timeout, tries=TRIES, signer=signer(given))


def signer(given: Namespace) -> Signer | None:
    """Return the key in the arguments; None if there is none."""
    if not given.key:
        return None
    try:
        from relay_client.signing import KeyFile  # noqa: PLC0415  # an extra
    except ImportError:
        raise UsageError("signing needs PyNaCl: pip install pynacl") from None
    try:
        return KeyFile(given.key)
    except (OSError, ValueError) as wrong:
        raise UsageError(str(wrong)) from None


def text_of(given: str) -> str:
    """Return a text from the arguments; `-` reads it from standard input."""
    try:
        return standard_input().read() if given == "-" else given
    except UnicodeDecodeError as wrong:
        raise UsageError(f"standard input is not text: {wrong}") from None


def standard_input() -> TextIO:
    """Return standard input. Raises UsageError if the parent process has closed it."""
    opened: TextIO | None = sys.stdin
    if opened is None:
        raise UsageError("standard input is closed")
    return opened


def json_of(given: str) -> Any:
    """Decode a JSON file."""
    file = file_of(given)
    try:
        return json.loads(file.read_text())
    except (ValueError, RecursionError) as wrong:
        raise UsageError(f"{given} is not JSON: {wrong}") from None


def file_of(given: str) -> Path:
    """Return the path of a file in the arguments. Raises UsageError if there is no such file."""
    path = Path(given)
    if not path.is_file():
        raise UsageError(f"{given} is not a file")
    return path
