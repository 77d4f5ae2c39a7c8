"""`relay-node admin artifacts`: what is kept, and the removal of bytes."""

import argparse

from node.admin.commands import Commands
from node.admin.console.context import CommandContext, CommandResult, add, add_dry_run, positive, table
from node.artifacts.model import Manifest
from node.common.refusal import Refused

HEAD = ("ID", "STATUS", "BYTES", "TYPE", "PUBLISHER", "EXPIRES", "FILENAME")


def register(commands: Commands) -> None:
    """The group."""
    group = commands.group("artifacts", "what agents have uploaded")
    listing = add(group, "artifacts list", _list, "artifacts whose bytes count")
    listing.add_argument("--limit", type=positive, default=100, help="how many")
    purge = add(group, "artifacts purge", _purge, "remove the bytes of an artifact, for good")
    purge.add_argument("targets", metavar="ID", nargs="+", help="id of an artifact")
    add_dry_run(purge)


async def _list(desk: CommandContext, given: argparse.Namespace) -> CommandResult:
    found: list[Manifest] = []
    async for manifest in desk.rooms.artifacts.list():
        found.append(manifest)
        if len(found) == given.limit:
            break
    rows = [_row(each) for each in found]
    return CommandResult(data=found, lines=table(HEAD, rows), outcome=f"{len(found)} read")


async def _purge(desk: CommandContext, given: argparse.Namespace) -> CommandResult:
    artifacts = desk.rooms.artifacts
    results: list[tuple[str, str, Manifest | None]] = []
    for artifact_id in dict.fromkeys(given.targets):
        try:
            manifest = await (artifacts.get if given.dry_run else artifacts.purge)(artifact_id)
        except Refused as refused:
            results.append((artifact_id, refused.code, None))
        else:
            results.append((artifact_id, "dry run" if given.dry_run else "purged", manifest))
    purged = sum(manifest is not None for _, _, manifest in results)
    rows = [
        (artifact_id, outcome, manifest and manifest.status, manifest and manifest.byte_size)
        for artifact_id, outcome, manifest in results
    ]
    return CommandResult(
        data=[{"id": each, "outcome": outcome, "artifact": manifest} for each, outcome, manifest in results],
        lines=table(("ID", "OUTCOME", "STATUS", "BYTES"), rows),
        outcome=f"{'dry run' if given.dry_run else 'purged'}: {purged} of {len(results)}",
        ok=purged == len(results),
    )


def _row(each: Manifest) -> tuple[object, ...]:
    return each.id, each.status, each.byte_size, each.media_type, each.publisher_id, each.expires_at, each.filename
