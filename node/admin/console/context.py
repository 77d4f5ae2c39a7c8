"""What every `relay-node admin` command has: the node's services on its Redis, --json, an audit entry, an exit status.

A command is a coroutine that takes a `CommandContext` and its arguments and returns a `CommandResult`. It needs only
Redis, not a web process, so it also works on a node that does not serve.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from node.admin import audit
from node.admin.commands import AS_OPERATOR, NO_SECRET, Commands
from node.admin.terminal import as_json, one_line, utf8
from node.common.file_access import is_there
from node.common.refusal import Refused
from node.config import ConfigError, Settings
from node.run.embedded_redis import running
from node.run.keychain import known_secret
from node.run.redis_check import diagnose
from node.store import CommandFailed, Store, StoreUnavailable
from node.store.errors import OutOfMemory
from node.store.identity import compare
from node.web.errors import sentence

if TYPE_CHECKING:
    from node.run.services import Services

STORE_TIMEOUT = 10.0
"""Minimum of RELAY_STORE_TIMEOUT for commands, in seconds: no client waits for an acknowledgement here."""

MAX_NUMBER = 10**9
"""Largest number that an argument may be: more than there is of anything."""

MAX_COLUMN = 60
"""Most characters of a table cell; longer text is cut, and --json shows all of it."""

NO_MEMORY = (
    "the memory of Redis is full, and this command needs some: raise maxmemory, or remove something first; commands "
    "that remove, hide or block still work"
)

TableRow = Sequence[object]
Columns = Mapping[str, str]
"""Headings of a table, each with the attribute of the records that is shown below it."""


class CommandContext(NamedTuple):
    """What a command works with."""

    settings: Settings
    store: Store
    services: "Services"
    who: str
    """Who runs it, for the audit log."""


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a command found or did."""

    data: object
    """What --json shows; None if the command has already written its output."""
    lines: Sequence[str]
    """What is shown without --json."""
    outcome: str = "done"
    """What the audit log says."""
    ok: bool = True
    """Whether everything asked for was done; decides the exit status."""

    @classmethod
    def failed(cls, error: str, line: str = "") -> "CommandResult":
        """Return a result that says nothing was done because of `error`, shown as `line` if that is given."""
        return cls(data={"error": error}, lines=[line or error], outcome="failed", ok=False)

    @classmethod
    def listing(cls, columns: Columns, records: Sequence[object]) -> "CommandResult":
        """Return a result that shows records as a table."""
        return cls(data=records, lines=table_of(columns, records), outcome=f"{len(records)} read")


Action = Callable[[CommandContext, argparse.Namespace], Awaitable[CommandResult]]


class AdminCommand(NamedTuple):
    """A command, as the command line and the page on the admin port run it."""

    title: str
    action: Action
    audited: bool

    async def carry_out(self, context: CommandContext, given: argparse.Namespace) -> CommandResult:
        """Run the action and record it in the audit log. Raises what the action raises, such as Refused."""
        try:
            result = await self.action(context, given)
        except BaseException as error:
            outcome = f"refused: {error.code}" if isinstance(error, Refused) else "failed"
            with suppress(StoreUnavailable, CommandFailed):  # show the operator why the command failed, not this error
                await self._note(context, given, outcome)
            raise
        try:
            await self._note(context, given, result.outcome)
        except (StoreUnavailable, CommandFailed) as failure:
            missing = f"{'this was done, but is' if result.ok else 'this is'} not in the audit log: {failure}"
            return msgspec.structs.replace(result, lines=[*result.lines, missing])
        return result

    async def _note(self, context: CommandContext, given: argparse.Namespace, outcome: str) -> None:
        if self.audited:
            await audit.record(context.store, context.who, self.title, _target(given), outcome)


def add(
    commands: Commands, title: str, action: Action, meaning: str, *, audited: bool = True
) -> argparse.ArgumentParser:
    """Add a command named by the last word of `title`. Return the parser of its arguments.

    The audit log records the argument `targets`, or "all" if the argument `everything` is true.
    """
    command = AdminCommand(title, action, audited)
    parser = commands.add(title.rpartition(" ")[2], partial(run_command, command), meaning)
    parser.set_defaults(command=command)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def add_change(commands: Commands, title: str, action: Action, meaning: str, metavar: str, named: str) -> None:
    """Add a command that changes or destroys each of its targets; `named` is the help text of `targets`."""
    parser = add(commands, title, action, meaning)
    parser.add_argument("targets", metavar=metavar, nargs="+", type=utf8, help=named)
    add_dry_run(parser)


def add_dry_run(parser: argparse.ArgumentParser) -> None:
    """Add the option --dry-run, which every command has that changes or destroys something."""
    parser.add_argument("--dry-run", action="store_true", help="show what would be done, without doing it")


def positive(text: str) -> int:
    """Parse an argument that is an integer of at least 1. Raises ArgumentTypeError."""
    return _number(text, 1)


def natural(text: str) -> int:
    """Parse an argument that is an integer of at least 0. Raises ArgumentTypeError."""
    return _number(text, 0)


def _number(text: str, least: int) -> int:
    if not text.isdecimal() or not least <= int(text) <= MAX_NUMBER:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from {least} to {MAX_NUMBER}")
    return int(text)


def table(head: TableRow, rows: Iterable[TableRow]) -> list[str]:
    """Return aligned columns. Each cell is on one line, without control characters, whoever wrote it."""
    cells = [[_cell(value) for value in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]


def table_of(columns: Columns, records: Iterable[object]) -> list[str]:
    """Return a table of records."""
    return table(list(columns), [_cells(columns, record) for record in records])


async def for_each_target(
    given: argparse.Namespace, done: str, noun: str, columns: Columns, act: Callable[[str], Awaitable[object]]
) -> CommandResult:
    """Call `act` for each target and report each outcome. In a dry run, `act` must only look at the target.

    `done` is the outcome of a change, such as `removed`. `noun` is the name that --json gives to what `act` returns;
    `columns` are the attributes of it that the table shows.
    """
    word = "dry run" if given.dry_run else done
    results: list[tuple[str, str, object]] = []
    for target in dict.fromkeys(given.targets):
        try:
            results.append((target, word, await act(target)))
        except Refused as refused:
            results.append((target, refused.code, None))
    changed = sum(outcome == word for _, outcome, _ in results)
    rows = [(target, outcome, *_cells(columns, found)) for target, outcome, found in results]
    return CommandResult(
        data=[{"id": target, "outcome": outcome, noun: found} for target, outcome, found in results],
        lines=table(("ID", "OUTCOME", *columns), rows),
        outcome=f"{word}: {changed} of {len(results)}",
        ok=changed == len(results),
    )


def _cells(columns: Columns, record: object) -> TableRow:
    return [record and getattr(record, attribute) for attribute in columns.values()]


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = one_line(str(value)) if value not in (None, "") else "-"
    return text if len(text) <= MAX_COLUMN else text[: MAX_COLUMN - 1] + "…"


def run_command(command: AdminCommand, settings: Settings, given: argparse.Namespace) -> int:
    """Run a command on the node's Redis and show its result. Return the exit status."""
    try:
        result = asyncio.run(_result(command, settings, given))
    except OutOfMemory:
        return _say(NO_MEMORY)
    except StoreUnavailable as unavailable:
        return _say(f"Redis is out of reach, or did not answer in time: {unavailable}", os.EX_TEMPFAIL)
    except CommandFailed as failed:
        return _say(_refused_by_redis(failed))
    except Refused as refused:
        return _say(sentence(refused))
    return show(result, json=given.json)


def _refused_by_redis(failed: CommandFailed) -> str:
    """Return the message for a command that Redis refuses, in most cases because the Redis user lacks a permission."""
    who = "deploy/redis/users.acl lists the permissions that its users need"
    if "NOPERM" in str(failed):
        who = AS_OPERATOR
    return f"Redis refuses a command ({failed}): {who}"


async def _result(command: AdminCommand, settings: Settings, given: argparse.Namespace) -> CommandResult:
    async with opened(settings, audit.who()) as context:
        return await command.carry_out(context, given)


@asynccontextmanager
async def opened(settings: Settings, who: str) -> AsyncGenerator[CommandContext]:
    """Yield what commands work with, connected while the block runs. Raises ConfigError and StoreUnavailable."""
    # Imported late, because it loads every service, and the supervisor, which is the same program, needs none.
    from node.run.services import Services, Stores  # noqa: PLC0415

    secret = known_secret(settings)
    settings = _located(settings)
    stores = await Stores.open(settings)
    try:
        # If only part of a cluster is out of reach, commands can still work on the rest.
        if not await stores.main.ready() and not stores.main.connected:
            raise StoreUnavailable(await diagnose(settings.redis_url, settings.store_timeout, "no connection"))
        await compare(stores.main, secret)
        services = Services(msgspec.structs.replace(settings, secret=settings.secret or NO_SECRET), stores)
        try:
            yield CommandContext(settings, stores.main, services, who)
        finally:
            await services.close()
    finally:
        await stores.close()


def show(result: CommandResult, *, json: bool) -> int:
    """Write the result of a command to standard output. Return the exit status."""
    if json and result.data is not None:
        sys.stdout.write(as_json(result.data) + "\n")
    elif not json:
        sys.stdout.writelines(f"{line}\n" for line in result.lines)
    return 0 if result.ok else 1


def _located(settings: Settings) -> Settings:
    """Return the settings with the URL of the node's Redis. Raises ConfigError if there is none."""
    url = settings.redis_url or running(settings.data_dir)
    if not url:
        where = settings.data_dir.resolve()
        none = ConfigError(f"no node runs on {where}: start it, or set RELAY_DATA_DIR or RELAY_REDIS_URL to the node's")
        if is_there(where / "redis"):  # the node is stopped, or still starting, as after a boot of the machine
            none.status = os.EX_TEMPFAIL
        raise none
    return msgspec.structs.replace(settings, redis_url=url, store_timeout=max(STORE_TIMEOUT, settings.store_timeout))


def _target(given: argparse.Namespace) -> str:
    if getattr(given, "everything", False):
        return "all"
    return " ".join(map(str, getattr(given, "targets", ())))


def _say(message: str, status: int = 1) -> int:
    sys.stderr.write(f"relay-node: {message}\n")
    return status
