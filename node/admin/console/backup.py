"""`relay-node admin backup`: makes a backup in a directory or a bucket, removes the oldest ones, and verifies one."""

import argparse
import asyncio
import sys
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from node.admin.backup import STAMP, Backup, BackupError, back_up, check, remove_all_but, remove_remains
from node.admin.commands import Commands
from node.admin.console.context import CommandContext, CommandResult, add, positive, run_command, show
from node.admin.remote_backup import bucket_at, fetched, is_remote, remove_all_but_remote, send
from node.config import Settings
from node.store import CommandFailed, StoreUnavailable, keys
from node.store.clock import now_ms

VERIFY = "verify"


def register(commands: Commands) -> None:
    parser = add(
        commands,
        "backup",
        _backup,
        "back up all that the node keeps, while it serves; `relay-node restore` makes a node from it",
    )
    parser.set_defaults(run=_run)
    meaning = "a new directory, or s3://bucket/prefix; `verify PLACE` checks the files of an earlier backup instead"
    parser.add_argument("words", metavar="PLACE", nargs="+", help=meaning)
    parser.add_argument(
        "--into", action="store_true", help="make the backup below PLACE, in a directory named after the time"
    )
    parser.add_argument(
        "--keep", type=positive, metavar="N", help="with --into: then remove all but the newest N backups there"
    )


def _run(settings: Settings, given: argparse.Namespace) -> int:
    match given.words:
        case [place] if place != VERIFY and (not given.keep or given.into):
            given.targets = [place]
            return run_command(given.command, settings, given)
        case [word, place] if word == VERIFY and not given.into:
            return show(asyncio.run(_verify(settings, place)), json=given.json)
        case _:
            sys.stderr.write("relay-node: write `backup PLACE [--into [--keep N]]` or `backup verify PLACE`\n")
            return 2


async def _backup(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    place: str = given.targets[0]
    name = datetime.now(UTC).strftime(STAMP) if given.into else ""
    # Only available artifacts: the bytes of others may be incomplete.
    digests = {
        manifest.id: manifest.digest_sha256
        async for manifest in context.services.artifacts.list()
        if manifest.status == "available"
    }
    make = partial(back_up, context.settings, context.store, digests=digests)
    gone, left = list[str](), list[str]()
    began = await now_ms(context.store)
    try:
        if is_remote(place):
            async with bucket_at(context.settings, place) as bucket:
                with tempfile.TemporaryDirectory(prefix="relay-backup-") as folder:
                    backup = await make(Path(folder))
                    await send(bucket, Path(folder), f"{name}/" if name else "")
                if given.keep:
                    gone, left = await remove_all_but_remote(bucket, given.keep, name)
        else:
            if given.into:
                remove_remains(Path(place))
            backup = await make(Path(place) / name)
            if given.keep:
                gone, left = remove_all_but(Path(place), given.keep, name)
    except BackupError as error:
        return CommandResult.failed(str(error), f"no backup was made: {error}")
    if not backup.damaged:
        # If this cannot be noted, the alert for a missing backup fires too early; the backup itself is good.
        with suppress(StoreUnavailable, CommandFailed):
            await context.store.command("SET", keys.LAST_BACKUP, began)
    redis = sum(file.byte_size for file in backup.redis)
    where = f"{place.rstrip('/')}/{name}" if name else place
    lines = [f"{where}: {redis:,} bytes of Redis, {backup.blobs} artifacts ({backup.blob_bytes:,} bytes)"]
    lines += [f"removed: {each}" for each in gone]
    lines += [f"not removed: {each}" for each in left]
    lines += [f"damaged, so not in the backup: the bytes of artifact {each}" for each in backup.damaged]
    lines += [f"{setting} is not in the backup: keep a copy of it yourself" for setting in backup.keys_elsewhere]
    if backup.blob_url:
        lines.append(f"the bytes of artifacts are at {backup.blob_url}, not in the backup")
    return CommandResult(data=backup, lines=lines, outcome=f"{redis} bytes", ok=not (backup.damaged or left))


async def _verify(settings: Settings, place: str) -> CommandResult:
    try:
        async with fetched(settings, place) as directory:
            backup, sound, damaged = check(directory)
    except BackupError as error:
        return CommandResult.failed(str(error))
    lines = [f"missing or damaged: the bytes of artifact {name}" for name in damaged]
    lines.append(_summary(backup, place, len(sound)))
    data = {"backup": backup, "sound": len(sound), "damaged": damaged}
    return CommandResult(data=data, lines=lines, ok=not damaged)


def _summary(backup: Backup, place: str, sound: int) -> str:
    files = f"{len(backup.redis)} files of Redis, {len(backup.keys)} keys, {sound} of {backup.blobs} artifacts"
    return f"{place}: node {backup.node_id} as it was at {backup.created_at}; intact: {files}"
