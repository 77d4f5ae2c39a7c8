"""`relay-node admin reports`: lists posts that clients have reported, and hides them or dismisses the reports."""

import argparse
from functools import partial
from typing import Literal

from node.admin.commands import Commands
from node.admin.console.context import CommandContext, CommandResult, add, add_change, for_each_target, positive
from node.admin.console.threads import NAMED, post_named
from node.admin.terminal import one_line, utf8
from node.board.model import ReportedPost

COLUMNS = {
    "THREAD": "thread_id",
    "N": "seq",
    "REPORTS": "waiting",
    "LAST": "last_at",
    "HIDDEN": "is_hidden",
    "TITLE": "title",
    "TEXT": "excerpt",
}


def register(commands: Commands) -> None:
    group = commands.group("reports", "posts that clients have reported")
    listing = add(
        group, "reports list", _list, "reported posts that no operator has looked at, most recently reported first"
    )
    listing.add_argument(
        "--limit", type=positive, default=20, help="maximum number of posts to show; default: %(default)s"
    )
    show = add(group, "reports show", _show, "a reported post, and the reasons that its reports give")
    show.add_argument("targets", metavar="ID[:N]", nargs=1, type=utf8, help=NAMED["ID[:N]"])
    settlings: tuple[tuple[Literal["dismiss", "hide"], str, str], ...] = (
        ("dismiss", "dismissed", "dismiss the reports about a post; if they have hidden it, it is shown again"),
        ("hide", "hidden", "hide a reported post; `threads unhide` shows it again"),
    )
    for name, done, meaning in settlings:
        action = partial(_settle, done=done, action=name)
        add_change(group, f"reports {name}", action, meaning, "ID[:N]", NAMED["ID[:N]"])


async def _list(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    found = await context.services.board.moderation.reported(given.limit)
    return CommandResult.listing(COLUMNS, found)


async def _show(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    found = await _find(context, given.targets[0])
    state = "hidden" if found.is_hidden else "shown"
    by = " by the reports" if found.hidden_by_reports else ""
    lines = [
        f"{found.thread_id}:{found.seq}, {found.waiting} new reports, {state}{by}",
        one_line(found.title or "the thread is gone"),
        *map(one_line, (found.excerpt or "").splitlines()),
        "",
        *map(one_line, found.reasons),
    ]
    return CommandResult(data=found, lines=lines)


async def _settle(
    context: CommandContext, given: argparse.Namespace, done: str, action: Literal["dismiss", "hide"]
) -> CommandResult:
    async def act(target: str) -> ReportedPost:
        """Settle the reports about a post, unless this is a dry run. Return the post as it was before."""
        found = await _find(context, target)
        if not given.dry_run:
            await context.services.board.moderation.settle(found.thread_id, found.seq, action)
        return found

    return await for_each_target(given, done, "report", {"REPORTS": "waiting", "TITLE": "title"}, act)


async def _find(context: CommandContext, target: str) -> ReportedPost:
    return await context.services.board.moderation.reports_of(*post_named(target, "report.unknown"))
