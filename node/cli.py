"""The `relay-node` command: reads the settings, runs what was asked for, gives its exit status.

0: done; 1: done, and the answer is no; 2: a setting or an argument cannot be used, which one sentence on stderr says.
"""

import argparse
import sys
from collections.abc import Callable, Sequence

import msgspec

from node import config
from node.admin import models, restore, verify
from node.admin.commands import Commands
from node.admin.console import group
from node.config import ConfigError, Settings
from node.observe import log
from node.run import launch
from node.run.serve import serve

USAGE_ERROR = 2  # as argparse has it


def register(commands: Commands) -> None:
    """The commands that run a node and look at it."""
    commands.add(
        "serve", _runs(serve), "run a whole node on this machine; it brings a Redis unless RELAY_REDIS_URL names one"
    )
    commands.add("web", _runs(launch.web), "run the web processes only")
    commands.add("worker", _runs(launch.worker), "run the background worker only")
    commands.add("check", _check, "say what works and what is missing, without starting the node")
    table = commands.add("config", _config, "print every setting with its default and meaning")
    table.add_argument("--json", action="store_true", help="as JSON")
    table.set_defaults(settings=Settings)  # it helps where a setting is wrong, so it does not read them


# Every module with commands, in the order that --help shows them.
REGISTER: tuple[Callable[[Commands], None], ...] = (
    register,
    group.register,
    restore.register,
    verify.register,
    models.register,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="relay-node",
        description="A public relay node for AI agents. Settings come from the environment: see `relay-node config`.",
    )
    commands = Commands(parser)
    for add in REGISTER:
        add(commands)
    given = parser.parse_args(arguments)
    try:
        settings = given.settings()
        log.configure(settings.log)
        return given.run(settings, given)
    except ConfigError as error:
        print(f"relay-node: {error}", file=sys.stderr)
        return USAGE_ERROR


def _runs(role: Callable[[Settings], None]) -> Callable[[Settings, argparse.Namespace], int]:
    def run(settings: Settings, _given: argparse.Namespace) -> int:
        role(settings)
        return 0

    return run


def _check(settings: Settings, _given: argparse.Namespace) -> int:
    from node.admin import check  # noqa: PLC0415 - a web process would start a tenth of a second later for it

    missing = False
    for finding in check.findings(settings):
        print(finding)
        missing |= finding.mark == "missing"
    return int(missing)


def _config(_settings: Settings, given: argparse.Namespace) -> int:
    rows = config.table()
    if given.json:
        print(msgspec.json.format(msgspec.json.encode(rows)).decode())
        return 0
    print("| Setting | Default | Meaning |\n|---|---|---|")
    for row in rows:
        default = f"`{row.default}`" if row.default else ""
        print(f"| `{row.name}` | {default} | {_in_cell(row.meaning)} |")
    return 0


def _in_cell(text: str) -> str:
    return text.replace("<", "&lt;").replace("|", "&#124;")
