"""`relay-node admin threads`: lists and shows threads, closes and reopens them; hides, shows and removes posts."""

import argparse
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Literal, get_args

from node.admin.commands import Commands
from node.admin.console.context import (
    CommandContext,
    CommandResult,
    add,
    add_change,
    for_each_target,
    natural,
    positive,
    table_of,
)
from node.admin.terminal import one_line, utf8
from node.board.model import ModeratedThread, ThreadStatus
from node.common.refusal import Refused
from node.store import ids

COLUMNS = {
    "ID": "id",
    "STATUS": "status",
    "REPLIES": "reply_count",
    "CREATED": "created_at",
    "FROM": "client",
    "AUTHOR": "author",
    "TITLE": "title",
}
REPLY_COLUMNS = {
    "N": "seq",
    "CREATED": "created_at",
    "FROM": "client",
    "KEY": "signer",
    "HIDDEN": "is_hidden",
    "AUTHOR": "author",
    "TEXT": "body",
}
CHANGED = {"REPLIES": "reply_count", "TITLE": "title"}
NAMED = {"ID": "id of a thread", "ID[:N]": "id of a thread, or ID:N for reply number N of that thread"}
"""Help texts of the two kinds of targets: a thread, and a thread or reply."""
NOT_KNOWN = "not known: it is older than RELAY_PROVENANCE_DAYS, or no worker has recorded it yet"


def register(commands: Commands) -> None:
    group = commands.group("threads", "the threads of the board")
    parser = add(group, "threads list", _list, "threads with one status, most recent activity first")
    parser.add_argument("--status", choices=get_args(ThreadStatus), default="open", help="default: %(default)s")
    parser.add_argument(
        "--limit", type=positive, default=20, help="maximum number of threads to show; default: %(default)s"
    )
    parser.add_argument("--offset", type=natural, default=0, help="threads to skip; default: %(default)s")
    show = add(group, "threads show", _show, "a thread and its replies, and the address or key that each came from")
    show.add_argument("targets", metavar="ID", nargs=1, type=utf8, help="id of a thread")
    for name, action, named, meaning in (
        (
            "close",
            partial(_set_status, done="closed", status="closed"),
            "ID",
            "close a thread: it takes no more replies",
        ),
        (
            "reopen",
            partial(_set_status, done="reopened", status="open"),
            "ID",
            "reopen a closed thread: it takes replies again",
        ),
        ("hide", _hide, "ID[:N]", "hide a thread or a reply from clients, without removing it"),
        ("unhide", _unhide, "ID[:N]", "show a hidden thread or reply again"),
        ("purge", _purge, "ID[:N]", "remove a thread and its replies, or one reply; this cannot be undone"),
    ):
        add_change(group, f"threads {name}", action, meaning, named, NAMED[named])


async def _list(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    found, total = await context.services.board.moderation.list(given.status, given.limit, given.offset)
    return CommandResult(
        data={"threads": found, "total": total},
        lines=[*table_of(COLUMNS, found), f"{len(found)} of {total} {given.status} threads"],
    )


async def _show(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    found = await context.services.board.moderation.origin(given.targets[0])
    thread = found.thread
    facts = [
        ("thread", f"{thread.id}, {thread.status}, {thread.source}, {thread.created_at}"),
        ("from", found.client or NOT_KNOWN),
        ("key", found.signer or "not signed"),
        ("author", one_line(thread.author or "-")),
        ("title", one_line(thread.title)),
    ]
    lines = [*(f"{name:8}{fact}" for name, fact in facts), "", *map(one_line, found.body.splitlines()), ""]
    return CommandResult(data=found, lines=[*lines, *table_of(REPLY_COLUMNS, found.replies)])


async def _hide(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    return await _change(context, given, "hidden", context.services.board.moderation.hide)


async def _unhide(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    return await _change(context, given, "shown", context.services.board.moderation.show)


async def _purge(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    return await _change(context, given, "purged", context.services.board.moderation.purge)


async def _set_status(
    context: CommandContext, given: argparse.Namespace, done: str, status: Literal["closed", "open"]
) -> CommandResult:
    moderation = context.services.board.moderation

    async def act(thread_id: str) -> ModeratedThread:
        """Give a thread the status, unless this is a dry run. Return the thread as it was before."""
        thread = await moderation.find(thread_id)
        if not given.dry_run:
            await moderation.set_status(thread_id, status)
        return thread

    return await for_each_target(given, done, "thread", CHANGED, act)


async def _change(
    context: CommandContext, given: argparse.Namespace, done: str, change: Callable[[str, int], Awaitable[None]]
) -> CommandResult:
    async def act(target: str) -> ModeratedThread:
        """Change a thread or reply, unless this is a dry run. Return the thread as it was before."""
        thread_id, seq = post_named(target, "thread.unknown")
        thread = await context.services.board.moderation.find(thread_id, seq)
        if not given.dry_run:
            await change(thread_id, seq)
        return thread

    return await for_each_target(given, done, "thread", CHANGED, act)


def post_named(target: str, unknown: str) -> tuple[str, int]:
    """Return the thread id and reply number in `target`; 0 is the thread itself. Raises Refused `unknown`."""
    try:
        return ids.post_named(target)
    except ValueError:
        raise Refused(unknown) from None
