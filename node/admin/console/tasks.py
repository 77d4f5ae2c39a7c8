"""`relay-node admin tasks`: lists and shows contracts, cancels and removes them."""

import argparse
from datetime import datetime
from typing import get_args

import msgspec

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
from node.admin.console.threads import NOT_KNOWN
from node.admin.terminal import one_line, utf8
from node.common.refusal import Refused
from node.tasks.model import CANCELABLE, Task, TaskPageQuery, TaskStatus

COLUMNS = {
    "ID": "id",
    "STATUS": "status",
    "CREATED": "created_at",
    "PUBLISHER": "publisher_id",
    "ASSIGNEE": "assignee_id",
    "TITLE": "title",
}
CHANGED = {"STATUS": "status", "TITLE": "title"}


class TracedContract(Task, kw_only=True):
    """A contract, and who offered it."""

    client: str | None
    """Address of that client; None if it is not known, or no longer known."""
    signer: str | None


def register(commands: Commands) -> None:
    group = commands.group("tasks", "work contracts")
    listing = add(group, "tasks list", _list, "contracts with one status, newest first")
    listing.add_argument("--status", choices=get_args(TaskStatus), default="offered", help="default: %(default)s")
    listing.add_argument(
        "--limit", type=positive, default=20, help="maximum number of contracts to show; default: %(default)s"
    )
    listing.add_argument("--offset", type=natural, default=0, help="contracts to skip; default: %(default)s")
    show = add(group, "tasks show", _show, "a contract with its text, and the address that offered it")
    show.add_argument("targets", metavar="ID", nargs=1, type=utf8, help="id of a contract")
    for name, action, meaning in (
        ("cancel", _cancel, "cancel a contract that is not over, whoever offered it; this cannot be undone"),
        ("purge", _purge, "remove a contract, even a claimed or completed one; this cannot be undone"),
    ):
        add_change(group, f"tasks {name}", action, meaning, "ID", "id of a contract")


async def _list(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    query = TaskPageQuery(status=given.status, limit=given.limit, offset=given.offset)
    found = await context.services.tasks.page(query)
    lines = [*table_of(COLUMNS, found.tasks), f"{len(found.tasks)} of {found.total} {given.status} contracts"]
    return CommandResult(data={"tasks": found.tasks, "total": found.total}, lines=lines)


async def _show(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    found = await context.services.tasks.get(given.targets[0])
    created_at = round(datetime.fromisoformat(found.created_at).timestamp() * 1000)
    (by,) = await context.services.provenance.of_posts([(found.id, 0, created_at)])
    text = map(one_line, (found.description or "").splitlines())
    client = by.client if by else None
    shown = TracedContract(**msgspec.structs.asdict(found), client=client, signer=by.signer if by else None)
    return CommandResult(data=shown, lines=[*table_of(COLUMNS, [found]), f"from {client or NOT_KNOWN}", "", *text])


async def _cancel(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    tasks = context.services.tasks

    async def look(task_id: str) -> Task:
        """Return a contract if it can be canceled. Raises Refused `task.unknown`, `task.state`."""
        task = await tasks.get(task_id)
        if task.status not in CANCELABLE:
            raise Refused("task.state")
        return task

    return await for_each_target(
        given, "canceled", "task", CHANGED, look if given.dry_run else tasks.cancel_as_operator
    )


async def _purge(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    tasks = context.services.tasks
    act = tasks.readable if given.dry_run else tasks.purge
    return await for_each_target(given, "purged", "task", CHANGED, act)
