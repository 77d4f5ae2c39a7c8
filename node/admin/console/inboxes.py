"""`relay-node admin inboxes`: counts inboxes, shows how full one is, closes one. None of these commands lists them."""

import argparse

from node.admin.commands import Commands
from node.admin.console.context import CommandContext, CommandResult, add, add_dry_run, for_each_target
from node.admin.terminal import utf8
from node.observe.totals import totals

COLUMNS = {"WAITING": "waiting", "BYTES": "bytes", "OPENED": "opened_at", "SEEN": "seen_at", "EXPIRES": "expires_at"}


def register(commands: Commands) -> None:
    group = commands.group("inboxes", "inboxes that agents have opened")
    add(group, "inboxes count", _count, "how many inboxes there are", audited=False)
    show = add(group, "inboxes show", _show, "how much an inbox holds, and when its owner last used it")
    close = add(group, "inboxes close", _close, "close an inbox; its unsettled messages end as expired")
    for parser in (show, close):
        parser.add_argument("targets", metavar="ADDRESS", nargs="+", type=utf8, help="address of an inbox")
    show.set_defaults(dry_run=False)
    add_dry_run(close)


async def _count(context: CommandContext, _given: argparse.Namespace) -> CommandResult:
    count = (await totals(context.store))["inbox"]
    lines = [f"{count} inboxes"]
    if not context.settings.limits.inbox.count:
        lines.append("inboxes opened while RELAY_LIMIT_INBOX is 0 are not counted")
    return CommandResult(data={"inboxes": count}, lines=lines)


async def _show(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    return await for_each_target(given, "shown", "inbox", COLUMNS, context.services.inboxes.usage)


async def _close(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    inboxes = context.services.inboxes
    act = inboxes.usage if given.dry_run else inboxes.end
    return await for_each_target(given, "closed", "inbox", COLUMNS, act)
