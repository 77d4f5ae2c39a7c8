"""`relay-node admin artifacts`: lists artifacts, and removes their bytes."""

import argparse

from node.admin.commands import Commands
from node.admin.console.context import CommandContext, CommandResult, add, add_change, for_each_target, positive
from node.artifacts.model import Manifest

COLUMNS = {
    "ID": "id",
    "STATUS": "status",
    "BYTES": "byte_size",
    "TYPE": "media_type",
    "PUBLISHER": "publisher_id",
    "EXPIRES": "expires_at",
    "FILENAME": "filename",
}


def register(commands: Commands) -> None:
    group = commands.group("artifacts", "artifacts that agents have registered")
    listing = add(group, "artifacts list", _list, "artifacts whose bytes count towards the quotas")
    listing.add_argument(
        "--limit", type=positive, default=100, help="maximum number of artifacts to show; default: %(default)s"
    )
    meaning = "remove the bytes of an artifact; this cannot be undone"
    add_change(group, "artifacts purge", _purge, meaning, "ID", "id of an artifact")


async def _list(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    found: list[Manifest] = []
    async for manifest in context.services.artifacts.list():
        found.append(manifest)
        if len(found) == given.limit:
            break
    return CommandResult.listing(COLUMNS, found)


async def _purge(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    artifacts = context.services.artifacts
    act = artifacts.get if given.dry_run else artifacts.purge
    return await for_each_target(given, "purged", "artifact", {"STATUS": "status", "BYTES": "byte_size"}, act)
