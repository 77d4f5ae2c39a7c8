"""What every `relay-node admin` command has: the node's services on its Redis, --json, an audit entry, an exit status.

A command is a coroutine that takes a `CommandContext` and its arguments and returns a `CommandResult`. It works on
Redis alone, without any web process, and so on a node that does not serve, too.
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
from node.admin.commands import NO_SECRET, Commands
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
"""The least that RELAY_STORE_TIMEOUT is for commands, in seconds: no client waits for an acknowledgement here."""

MAX_NUMBER = 10**9
"""The largest number that an argument may be: more than there is of anything."""

MAX_COLUMN = 60
"""Characters of a table's cell, beyond which it is cut; --json has all of it."""

NO_MEMORY = (
    "the memory of Redis is full, and this needs some: raise maxmemory, or remove something; what removes, hides and "
    "blocks works"
)

TableRow = Sequence[object]
Columns = Mapping[str, str]
"""The headings of a table, and the attributes of the records that are shown below them."""


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
    """What --json shows; None if the command has written everything already."""
    lines: Sequence[str]
    """What is shown otherwise."""
    outcome: str = "done"
    """What the audit log says."""
    ok: bool = True
    """Whether everything asked for was done; decides the exit status."""

    @classmethod
    def failed(cls, error: str, line: str = "") -> "CommandResult":
        """Nothing was done because of `error`, shown as `line` if that is given."""
        return cls(data={"error": error}, lines=[line or error], outcome="failed", ok=False)

    @classmethod
    def listing(cls, columns: Columns, records: Sequence[object]) -> "CommandResult":
        """Records that were read, as a table."""
        return cls(data=records, lines=table_of(columns, records), outcome=f"{len(records)} read")


Action = Callable[[CommandContext, argparse.Namespace], Awaitable[CommandResult]]


class AdminCommand(NamedTuple):
    """A command, as the command line and the page on the admin port carry it out."""

    title: str
    action: Action
    audited: bool

    async def carry_out(self, context: CommandContext, given: argparse.Namespace) -> CommandResult:
        """Run the action and record it in the audit log. Raises what the action raises, such as Refused."""
        try:
            result = await self.action(context, given)
        except BaseException as error:
            outcome = f"refused: {error.code}" if isinstance(error, Refused) else "failed"
            with suppress(StoreUnavailable, CommandFailed):  # the operator is to see why the command failed, not this
                await self._note(context, given, outcome)
            raise
        try:
            await self._note(context, given, result.outcome)
        except (StoreUnavailable, CommandFailed) as failure:
            missing = f"{'this is done, and' if result.ok else 'this is'} not in the audit: {failure}"
            return msgspec.structs.replace(result, lines=[*result.lines, missing])
        return result

    async def _note(self, context: CommandContext, given: argparse.Namespace, outcome: str) -> None:
        if self.audited:
            await audit.record(context.store, context.who, self.title, _target(given), outcome)


def add(
    commands: Commands, title: str, action: Action, meaning: str, *, audited: bool = True
) -> argparse.ArgumentParser:
    """Add a command named by the last word of `title`. Returns its parser, for arguments.

    For the audit log, its argument `targets` names what it works on, and `everything` means all there is.
    """
    command = AdminCommand(title, action, audited)
    parser = commands.add(title.rpartition(" ")[2], partial(run_command, command), meaning)
    parser.set_defaults(command=command)
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def add_change(commands: Commands, title: str, action: Action, meaning: str, metavar: str, named: str) -> None:
    """Add a command that changes or destroys each of its targets; `named` is the help for them."""
    parser = add(commands, title, action, meaning)
    parser.add_argument("targets", metavar=metavar, nargs="+", type=utf8, help=named)
    add_dry_run(parser)


def add_dry_run(parser: argparse.ArgumentParser) -> None:
    """Add the option of a command that changes or destroys something."""
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")


def positive(text: str) -> int:
    """Read an argument that is a number from 1 on. Raises ArgumentTypeError."""
    return _number(text, 1)


def natural(text: str) -> int:
    """Read an argument that is a number from 0 on. Raises ArgumentTypeError."""
    return _number(text, 0)


def _number(text: str, least: int) -> int:
    if not text.isdecimal() or not least <= int(text) <= MAX_NUMBER:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from {least} to {MAX_NUMBER}")
    return int(text)


def table(head: TableRow, rows: Iterable[TableRow]) -> list[str]:
    """Aligned columns. What others wrote is shown on one line, without control characters."""
    cells = [[_cell(value) for value in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]


def table_of(columns: Columns, records: Iterable[object]) -> list[str]:
    """A table of records."""
    return table(list(columns), [_cells(columns, record) for record in records])


async def for_each_target(
    given: argparse.Namespace, done: str, noun: str, columns: Columns, act: Callable[[str], Awaitable[object]]
) -> CommandResult:
    """Have `act` change each target, or in a dry run look at it, and report the outcome of each.

    `done` is the outcome of a change, such as `removed`. `noun` is the name in --json of what `act` returns; `columns`
    are the parts of it that the table shows.
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
    """Run a command on the node's Redis and show its result. Returns its exit status."""
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
    """The message for a command that Redis refuses, in most cases because its user lacks a permission."""
    who = "deploy/redis/users.acl has what its users need"
    if "NOPERM" in str(failed):
        who = "set RELAY_REDIS_URL to that of relay-operator, the user for this in deploy/redis/users.acl"
    return f"Redis refuses a command ({failed}): {who}"


async def _result(command: AdminCommand, settings: Settings, given: argparse.Namespace) -> CommandResult:
    async with opened(settings, audit.who()) as context:
        return await command.carry_out(context, given)


@asynccontextmanager
async def opened(settings: Settings, who: str) -> AsyncGenerator[CommandContext]:
    """What commands work with, for as long as the block runs. Raises ConfigError and StoreUnavailable."""
    # This loads every service, which the supervisor, being the same program, has no use for.
    from node.run.services import Services, Stores  # noqa: PLC0415

    secret = known_secret(settings)
    settings = _located(settings)
    stores = await Stores.open(settings)
    try:
        # While part of a cluster is out of reach, commands can still work on the rest.
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
    """Write the result of a command. Returns its exit status."""
    if json and result.data is not None:
        sys.stdout.write(as_json(result.data) + "\n")
    elif not json:
        sys.stdout.writelines(f"{line}\n" for line in result.lines)
    return 0 if result.ok else 1


def _located(settings: Settings) -> Settings:
    """The settings with the Redis of the node. Raises ConfigError if there is none."""
    url = settings.redis_url or running(settings.data_dir)
    if not url:
        where = settings.data_dir.resolve()
        none = ConfigError(f"no node runs on {where}: start it, or set RELAY_DATA_DIR or RELAY_REDIS_URL to the node's")
        if is_there(where / "redis"):  # it is stopped, or just starting, as when the machine has come up
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
