"""`relay-node admin threads`: list, close, hide, purge."""

import argparse
from collections.abc import Awaitable, Callable
from typing import Literal, get_args

from node.admin.commands import Commands
from node.admin.console.context import (
    CommandContext,
    CommandResult,
    add,
    add_dry_run,
    for_each_target,
    positive,
    table_of,
)
from node.board.model import ModeratedThread, ThreadStatus

COLUMNS = {
    "ID": "id",
    "STATUS": "status",
    "REPLIES": "reply_count",
    "CREATED": "created_at",
    "AUTHOR": "author",
    "TITLE": "title",
}


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


async def _list(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    found, total = await context.services.board.moderation.list(given.status, given.limit, max(0, given.offset))
    return CommandResult(
        data={"threads": found, "total": total},
        lines=[*table_of(COLUMNS, found), f"{len(found)} of {total} {given.status} threads"],
    )


async def _close(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    return await _set_status(context, given, "closed")


async def _hide(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    return await _set_status(context, given, "hidden")


async def _set_status(
    context: CommandContext, given: argparse.Namespace, status: Literal["closed", "hidden"]
) -> CommandResult:
    set_status = context.services.board.moderation.set_status
    return await _change(context, given, status, lambda thread_id: set_status(thread_id, status))


async def _purge(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    return await _change(context, given, "purged", context.services.board.moderation.purge)


async def _change(
    context: CommandContext, given: argparse.Namespace, done: str, change: Callable[[str], Awaitable[None]]
) -> CommandResult:
    async def act(thread_id: str) -> ModeratedThread:
        """Gives the thread as it was before."""
        thread = await context.services.board.moderation.find(thread_id)
        if not given.dry_run:
            await change(thread_id)
        return thread

    return await for_each_target(given, done, "thread", {"REPLIES": "reply_count", "TITLE": "title"}, act)
