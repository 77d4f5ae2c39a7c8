"""The `relay-node` command: reads the settings, runs a subcommand and returns its exit status.

0: done. 1: done, and the answer is no. 2: a setting or an argument cannot be used; a sentence on stderr says why.
75: a temporary failure, worth a retry: a port is taken, the embedded Redis was killed, the node that an operator's
command addresses is stopped or its Redis is out of reach, or the disk that the output is written to is full.
130: interrupted by Ctrl-C.
"""

import argparse
import errno
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence

import msgspec

from node import VERSION, config
from node.admin.commands import CONFIG_HELP, Commands
from node.common import process
from node.config import ConfigError, Settings
from node.config.sources import CONFIG
from node.describe.settings import SettingRow, page, table
from node.observe import log
from node.run import launch
from node.run.serve import serve
from node.run.validation import loaded

ROLES: dict[str, tuple[Callable[[Settings], None], str]] = {
    "serve": (serve, "run a whole node on this machine, with a Redis of its own unless RELAY_REDIS_URL names one"),
    "web": (launch.web, "run the web processes only"),
    "worker": (launch.worker, "run the background worker only"),
}
"""The commands that run a node: the function and the help text of each."""

TOOLS = (
    "node.admin.console.group",
    "node.admin.restore",
    "node.admin.new_secret",
    "node.admin.verify",
    "node.admin.models",
)
"""The other modules with commands, in the order of --help. Not imported to run a node, so that it starts faster."""


def register(commands: Commands) -> None:
    """Add the commands that run a node or inspect it."""
    for role, (run, meaning) in ROLES.items():
        commands.add(role, _runs(run), meaning).set_defaults(role=role)
    commands.add("check", _check, "show what works and what is missing, without starting the node")
    listing = commands.add("config", _config, "print every setting, its value, and where the value comes from")
    listing.add_argument("--json", action="store_true", help="print JSON, with defaults and meanings")
    listing.add_argument(
        "--markdown", action="store_true", help="print the page of all settings in Markdown, with defaults and meanings"
    )
    listing.set_defaults(settings=Settings)  # the defaults, so that the command works even if a setting is wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(
        prog="relay-node",
        description="A public relay node for AI agents. Settings come from the environment and from relay.toml: "
        "see `relay-node config`.",
    )
    parser.add_argument("--version", action="version", version=VERSION)
    parser.add_argument("--config", metavar="FILE", default="", help=CONFIG_HELP)
    commands = Commands(parser)
    register(commands)
    if not arguments or arguments[0] not in ROLES:
        for module in TOOLS:
            importlib.import_module(module).register(commands)
    given = parser.parse_args(arguments)
    if given.config:
        os.environ[CONFIG] = given.config  # for the child processes
    try:
        settings = given.settings()
        # At a terminal, an operator's command prints only its result. If stderr is not a terminal, it also logs what
        # it did.
        role = given.role
        log.configure("critical" if not role and sys.stderr.isatty() else settings.log, role)
        status = given.run(settings, given)
        sys.stdout.flush()
    except ConfigError as error:
        print(f"relay-node: {error}", file=sys.stderr)
        return error.status
    except BrokenPipeError:  # the reader has closed the pipe, as `| head` does
        process.stop_writing()
        return 1
    except OSError as error:
        if given.role or error.errno != errno.ENOSPC or error.filename:
            raise
        process.stop_writing()
        print(f"relay-node: the output cannot be written: {error.strerror}", file=sys.stderr)
        return os.EX_TEMPFAIL
    return status


def _runs(role: Callable[[Settings], None]) -> Callable[[Settings, argparse.Namespace], int]:
    def run(settings: Settings, _given: argparse.Namespace) -> int:
        role(settings)
        return 0

    return run


def _check(settings: Settings, _given: argparse.Namespace) -> int:
    from node.admin import check  # noqa: PLC0415 - at the top it would delay a web process by 0.1 s

    missing = False
    for finding in check.findings(settings):
        print(finding)
        missing |= finding.mark == "missing"
    return int(missing)


class SettingInForce(SettingRow, frozen=True):
    """One setting with its value, and where the value comes from."""

    value: str
    source: str


def _config(_settings: Settings, given: argparse.Namespace) -> int:
    """Print the settings in force, then raise ConfigError if one of them cannot be used."""
    if given.markdown:
        print(page(), end="")
        return 0
    rows = list(_in_force())
    if given.json:
        print(msgspec.json.format(msgspec.json.encode(rows)).decode())
    else:
        widths = [max(len(row.name) for row in rows), max(len(row.value) for row in rows)]
        for row in rows:
            print(f"{row.name:{widths[0]}}  {row.value:{widths[1]}}  {row.source}".rstrip())
    loaded()
    return 0


def _in_force() -> Iterator[SettingInForce]:
    texts = config.texts()
    for row in table():
        found = texts.get(row.name)
        value, source = (found.text, found.source) if found else (row.default or "-", "default")
        if found and row.name in config.SECRETS:
            value = "(not shown)"
        yield SettingInForce(**msgspec.structs.asdict(row), value=value, source=source)
