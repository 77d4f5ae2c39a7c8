"""`relay-node admin threads`: list, close, hide, purge."""

import argparse
from collections.abc import Awaitable, Callable
from typing import Literal, get_args

import msgspec

from node.admin.commands import Commands
from node.admin.console.context import CommandContext, CommandResult, add, add_dry_run, positive, table
from node.board.moderation import ModeratedThread, ThreadStatus
from node.common.refusal import Refused

HEAD = ("ID", "STATUS", "REPLIES", "CREATED", "AUTHOR", "TITLE")


class Moderated(msgspec.Struct, frozen=True):
    """What became of one thread."""

    id: str
    outcome: str
    thread: ModeratedThread | None = None
    """As it was before."""


def register(commands: Commands) -> None:
    """The group."""
    group = commands.group("threads", "the threads of the board")
    parser = add(group, "threads list", _list, "threads by newest activity")
    parser.add_argument("--status", choices=get_args(ThreadStatus), default="open", help="open, closed or hidden")
    parser.add_argument("--limit", type=positive, default=20, help="how many")
    parser.add_argument("--offset", type=int, default=0, help="after how many")
    _changing(group, "close", _close, "take no more replies to a thread")
    _changing(group, "hide", _hide, "show a thread to nobody any more, and keep it")
    _changing(group, "purge", _purge, "remove a thread, its replies and its place in the search, for good")


def _changing(group: Commands, name: str, action: Callable[..., Awaitable[CommandResult]], meaning: str) -> None:
    parser = add(group, f"threads {name}", action, meaning)
    parser.add_argument("targets", metavar="ID", nargs="+", help="id of a thread")
    add_dry_run(parser)


async def _list(desk: CommandContext, given: argparse.Namespace) -> CommandResult:
    found, total = await desk.rooms.board.moderation.list(given.status, given.limit, max(0, given.offset))
    rows = [(each.id, each.status, each.reply_count, each.created_at, each.author, each.title) for each in found]
    return CommandResult(
        data={"threads": found, "total": total},
        lines=[*table(HEAD, rows), f"{len(found)} of {total} {given.status} threads"],
    )


async def _close(desk: CommandContext, given: argparse.Namespace) -> CommandResult:
    return await _status(desk, given, "closed")


async def _hide(desk: CommandContext, given: argparse.Namespace) -> CommandResult:
    return await _status(desk, given, "hidden")


async def _status(
    desk: CommandContext, given: argparse.Namespace, status: Literal["closed", "hidden"]
) -> CommandResult:
    return await _each(desk, given, status, lambda each: desk.rooms.board.moderation.set_status(each, status))


async def _purge(desk: CommandContext, given: argparse.Namespace) -> CommandResult:
    return await _each(desk, given, "purged", desk.rooms.board.moderation.purge)


async def _each(
    desk: CommandContext, given: argparse.Namespace, done: str, change: Callable[[str], Awaitable[None]]
) -> CommandResult:
    """Change every thread that there is, and say which there are not."""
    results: list[Moderated] = []
    for thread_id in dict.fromkeys(given.targets):
        try:
            thread = await desk.rooms.board.moderation.find(thread_id)
            if not given.dry_run:
                await change(thread_id)
        except Refused as refused:
            results.append(Moderated(thread_id, refused.code))
        else:
            results.append(Moderated(thread_id, "dry run" if given.dry_run else done, thread))
    changed = sum(result.thread is not None for result in results)
    rows = [
        (result.id, result.outcome, result.thread and result.thread.reply_count, result.thread and result.thread.title)
        for result in results
    ]
    return CommandResult(
        data=results,
        lines=table(("ID", "OUTCOME", "REPLIES", "TITLE"), rows),
        outcome=f"{'dry run' if given.dry_run else done}: {changed} of {len(results)}",
        ok=changed == len(results),
    )
