"""`relay-node admin feedback`: lists or exports what users reported."""

import argparse
import sys
from typing import get_args

from node.admin.commands import Commands
from node.admin.console.context import CommandContext, CommandResult, add, positive
from node.admin.terminal import as_json
from node.feedback.model import Category, Report

COLUMNS = {"RECEIVED": "received_at", "CATEGORY": "category", "CONTACT": "contact_channel", "TEXT": "text"}


def register(commands: Commands) -> None:
    group = commands.group("feedback", "feedback that clients have sent to the operators")
    listing = add(group, "feedback list", _list, "the newest feedback")
    listing.add_argument(
        "--limit", type=positive, default=20, help="maximum number of entries to show; default: %(default)s"
    )
    listing.add_argument("--category", choices=get_args(Category), help="only of this category")
    export = add(group, "feedback export", _export, "all feedback, newest first, one JSON object per line")
    export.add_argument("--category", choices=get_args(Category), help="only of this category")


async def _list(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    found: list[Report] = []
    async for report in context.services.feedback.reports():
        if given.category in (None, report.category):
            found.append(report)
        if len(found) == given.limit:
            break
    return CommandResult.listing(COLUMNS, found)


async def _export(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    count = 0
    async for report in context.services.feedback.reports():
        if given.category in (None, report.category):
            # Written one by one: there may be a hundred thousand.
            sys.stdout.write(as_json(report, 0) + "\n")
            count += 1
    return CommandResult(data=None, lines=(), outcome=f"{count} exported")
