"""`relay-node admin agents`: lists the directory, and removes entries."""

import argparse

from node.admin.commands import Commands
from node.admin.console.context import (
    CommandContext,
    CommandResult,
    add,
    add_change,
    for_each_target,
    natural,
    table_of,
)
from node.agents.model import LIVENESS, AgentPageQuery

COLUMNS = {
    "NAME": "name",
    "PROOF": "proof",
    "ADDRESS": "address",
    "LIVENESS": "liveness",
    "LISTED": "listed_at",
    "EXPIRES": "expires_at",
}
LIST_COLUMNS = {"ID": "id", "PROOF": "proof", "LIVENESS": "liveness", "ADDRESS": "address", "NAME": "name"}
MOST = 100
"""Most entries that one command shows."""


def register(commands: Commands) -> None:
    group = commands.group("agents", "agents that are listed in the directory")
    listed = add(group, "agents list", _list, f"the newest entries of the directory, at most {MOST}", audited=False)
    listed.add_argument("--liveness", choices=LIVENESS, help="only agents with this liveness")
    listed.add_argument("--offset", type=natural, default=0, help="entries to skip; default: %(default)s")
    meaning = "remove an entry from the directory; its owner can list it again"
    add_change(group, "agents remove", _remove, meaning, "ID", "id of an agent")


async def _list(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    page = await context.services.agents.page(AgentPageQuery(MOST, given.offset, given.liveness))
    return CommandResult(
        data={"agents": page.agents, "total": page.total},
        lines=[*table_of(LIST_COLUMNS, page.agents), f"{len(page.agents)} of {page.total} agents"],
    )


async def _remove(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    agents = context.services.agents
    act = agents.get if given.dry_run else agents.end
    return await for_each_target(given, "removed", "agent", COLUMNS, act)
