"""`relay-node admin backup`."""

import argparse
from pathlib import Path

from node.admin.backup import BackupError, back_up
from node.admin.commands import Commands
from node.admin.console.context import CommandContext, CommandResult, add


def register(commands: Commands) -> None:
    """The command."""
    parser = add(commands, "backup", _backup, "copy all that the node keeps, while it serves; `restore` takes it back")
    parser.add_argument("directory", type=Path, help="a new directory")


async def _backup(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    try:
        backup = await back_up(context.settings, context.store, given.directory)
    except BackupError as error:
        return CommandResult(data={"error": str(error)}, lines=[f"no backup: {error}"], outcome="failed", ok=False)
    redis = sum(file.byte_size for file in backup.redis)
    lines = [f"{given.directory}: {redis:,} bytes of Redis, {backup.blobs} artifacts ({backup.blob_bytes:,} bytes)"]
    if not backup.keys:
        lines.append("RELAY_SECRET and RELAY_SIGNING_KEY are not in it: keep them yourself")
    if backup.blob_url:
        lines.append(f"the bytes of artifacts are at {backup.blob_url}, and not in it")
    return CommandResult(data=backup, lines=lines, outcome=f"{redis} bytes")
