"""What every `relay-node admin` command has: the node's rooms on its Redis, --json, an audit entry, an exit status.

A command is a coroutine from a `CommandContext` and its arguments to a `CommandResult`; it prints nothing itself. It
works on Redis alone: no web process takes part, so it works on a node that does not serve, too.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from node.admin import audit
from node.admin.commands import Commands
from node.common.refusal import Refused
from node.config import ConfigError, Settings
from node.run.embedded_redis import running
from node.store import Store, StoreUnavailable
from node.text.readable import readable
from node.web.errors import sentence

if TYPE_CHECKING:
    from node.run.services import Services

PATIENCE = 10.0
"""Seconds a Redis call of the operator may take at least; nobody waits for an acknowledgement here."""

NO_SECRET = "none"  # noqa: S105 - it protects nothing
"""In place of the node's secret, which may be on another host: no command issues a token or a URL."""

WIDEST = 60
"""Characters of a column; the rest is in --json."""

TableRow = Sequence[object]


class CommandContext(NamedTuple):
    """What a command works with."""

    settings: Settings
    store: Store
    rooms: "Services"


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a command found or did."""

    data: object
    """For --json; None if all has been written already."""
    lines: Sequence[str]
    """For people."""
    outcome: str = "done"
    """For the audit."""
    ok: bool = True
    """Whether all that was asked for was done: the exit status."""


Action = Callable[[CommandContext, argparse.Namespace], Awaitable[CommandResult]]


def add(
    commands: Commands, title: str, action: Action, meaning: str, *, audited: bool = True
) -> argparse.ArgumentParser:
    """A command named by the last word of `title`. Returns its parser, for arguments.

    Those it works on are its `targets`; `everything` stands for all there are.
    """
    parser = commands.add(title.rpartition(" ")[2], partial(_run, title, action, audited), meaning)
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def add_dry_run(parser: argparse.ArgumentParser) -> None:
    """The option of a command that changes or destroys."""
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")


def positive(text: str) -> int:
    """An argument that counts something. Raises ValueError."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def table(head: TableRow, rows: Iterable[TableRow]) -> list[str]:
    """Aligned columns. What others wrote is shown on one line, without control characters."""
    cells = [[_cell(value) for value in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]


def _cell(value: object) -> str:
    text = " ".join(readable(str(value)).split()) if value not in (None, "") else "-"
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def _run(title: str, action: Action, audited: bool, settings: Settings, given: argparse.Namespace) -> int:
    try:
        answer = asyncio.run(_answer(title, action, audited, settings, given))
    except StoreUnavailable as unavailable:
        return _say(f"Redis is out of reach, or did not answer in time: {unavailable}")
    except Refused as refused:
        return _say(sentence(refused))
    except BrokenPipeError:  # `| head` has seen enough
        return _leave()
    return _show(answer, as_json=given.json)


async def _answer(
    title: str, action: Action, audited: bool, settings: Settings, given: argparse.Namespace
) -> CommandResult:
    # These know every room; the supervisor, which is this command too, has no use for them.
    from node.run.services import Services, Stores  # noqa: PLC0415

    settings = _located(settings)
    try:
        stores = await Stores.open(settings)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    try:
        if not await stores.main.ready():
            raise StoreUnavailable("no connection")
        rooms = Services(settings, stores)
        outcome = "failed"
        try:
            answer = await action(CommandContext(settings, stores.main, rooms), given)
            outcome = answer.outcome
        except Refused as refused:
            outcome = f"refused: {refused.code}"
            raise
        finally:
            await rooms.close()
            if audited:
                await audit.record(stores.main, title, _target(given), outcome)
        return answer
    finally:
        await stores.close()


def _show(answer: CommandResult, *, as_json: bool) -> int:
    try:
        if as_json and answer.data is not None:
            sys.stdout.write(msgspec.json.format(msgspec.json.encode(answer.data)).decode() + "\n")
        elif not as_json:
            sys.stdout.writelines(f"{line}\n" for line in answer.lines)
        sys.stdout.flush()
    except BrokenPipeError:
        return _leave()
    return 0 if answer.ok else 1


def _leave() -> int:
    """Have the interpreter flush what nobody reads to nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _located(settings: Settings) -> Settings:
    """The settings with the Redis of the node. Raises ConfigError if there is none."""
    url = settings.redis_url or running(settings.data_dir)
    if not url:
        where = settings.data_dir.resolve()
        raise ConfigError(f"no node runs on {where}: start it, or set RELAY_DATA_DIR or RELAY_REDIS_URL to the node's")
    return msgspec.structs.replace(
        settings,
        redis_url=url,
        store_timeout=max(PATIENCE, settings.store_timeout),
        secret=settings.secret or NO_SECRET,
    )


def _target(given: argparse.Namespace) -> str:
    if getattr(given, "everything", False):
        return "all"
    return " ".join(map(str, getattr(given, "targets", ())))


def _say(message: str) -> int:
    sys.stderr.write(f"relay-node: {message}\n")
    return 1
