"""`relay-node restore`: makes a node out of a backup in a directory or a bucket.

With the embedded Redis, it makes a data directory. Redis reads the copy as the base of a new append-only log, so the
node starts as it does after any restart. The log is put in place last: an interrupted restore has made no node yet and
can be repeated.

With RELAY_REDIS_URL, it writes the entries of every copy to that Redis, server or cluster, whatever slots the old
servers had (`node.admin.transfer`). The target must be empty, or hold what an interrupted restore of the same backup
left.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from node.admin.backup import BLOBS, Backup, BackupError, BackupFile, check, copy_private
from node.admin.commands import Commands
from node.admin.remote_backup import fetched
from node.admin.transfer import fill
from node.common.disk_sync import sync, sync_all
from node.config import ConfigError, Settings
from node.run.blobs import blob_directory
from node.run.embedded_redis import running
from node.run.redis_check import out_of_reach
from node.store import StoreUnavailable

LOG = "appendonlydir"
BASE = "appendonly.aof.1.base.rdb"
LOG_MANIFEST = "appendonly.aof.manifest"

LOSSES = 1
"""Exit status if the bytes of some artifacts could not be restored."""


def register(commands: Commands) -> None:
    parser = commands.add(
        "restore",
        _run,
        "make a node from a backup before it is started: fill RELAY_DATA_DIR, and the Redis at RELAY_REDIS_URL if set",
    )
    parser.add_argument("place", help="where `relay-node admin backup` put it: a directory, or s3://bucket/prefix")
    parser.add_argument(
        "--without-damaged",
        action="store_true",
        help="leave out artifacts whose bytes are missing or damaged, instead of refusing to restore",
    )


def restore(settings: Settings, directory: Path, *, without_damaged: bool = False) -> tuple[Backup, Sequence[str]]:
    """Make the node that the settings describe. Raises BackupError, and ConfigError if its Redis is out of reach.

    Return the backup, and the ids of the artifacts whose bytes are lost: left out when the backup was made, or damaged
    since.
    """
    try:
        return _restore(settings, directory, without_damaged)
    except OSError as error:
        raise BackupError(f"{error.filename or directory}: {error.strerror}") from error


def _restore(settings: Settings, directory: Path, without_damaged: bool) -> tuple[Backup, Sequence[str]]:
    backup, sound, damaged = check(directory)
    if damaged and not without_damaged:
        raise BackupError(
            f"missing or damaged: the bytes of artifacts {', '.join(damaged)}; use another backup, or --without-damaged"
        )
    if len(backup.redis) != 1 and not settings.redis_url:
        raise BackupError("this is the backup of a cluster: set RELAY_REDIS_URL to the Redis that is to hold it")
    data, log = settings.data_dir, settings.data_dir / "redis" / LOG
    if not settings.redis_url and (log.exists() or running(data)):
        raise BackupError(f"{data} holds a node already: set RELAY_DATA_DIR to a new directory")
    blobs = blob_directory(settings)
    if sound and not blobs:
        raise BackupError("the backup holds the bytes of artifacts: leave RELAY_BLOB_URL empty to restore them")
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    for key in backup.keys:
        if (data / key.name).exists() and (data / key.name).read_bytes() != (directory / key.name).read_bytes():
            raise BackupError(f"{data / key.name} belongs to another node: set RELAY_DATA_DIR to a new directory")
        new = data / f"{key.name}.new"  # a repeated restore would take half a key for the key of another node
        copy_private(directory / key.name, new)
        sync(new)
        new.replace(data / key.name)
    for blob in sound:
        if blobs:
            _put(directory / BLOBS / blob.name, blobs / blob.name, blob)
    if sound and blobs:
        sync_all(blobs)
        sync(blobs.parent)
    for path in (*(data / key.name for key in backup.keys), data, data.parent):
        sync(path)
    if settings.redis_url:
        _fill(settings, directory, backup.redis)
    else:
        put_log(directory / backup.redis[0].name, log)
    return backup, [*backup.damaged, *damaged]


def put_log(copy: Path, log: Path) -> None:
    """Make the copy of a server the base of a new append-only log."""
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = log.with_name(f"{LOG}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    copy_private(copy, new / BASE)
    (new / LOG_MANIFEST).write_text(f"file {BASE} seq 1 type b\n")
    sync_all(new)
    new.rename(log)
    sync(log.parent)
    sync(log.parent.parent)


def _put(source: Path, target: Path, blob: BackupFile) -> None:
    """Restore the bytes of an artifact. The file gets its name once its digest is verified. Raises BackupError."""
    part = target.with_name(f"{target.name}.part")  # after an interruption, the node removes it
    if copy_private(source, part).sha256 != blob.sha256:
        part.unlink()
        raise BackupError(f"{source} was changed while it was restored: use another backup")
    part.replace(target)


def _fill(settings: Settings, directory: Path, copies: Sequence[BackupFile]) -> None:
    which = " ".join(copy.sha256 for copy in copies)
    for number, copy in enumerate(copies, 1):
        with tempfile.TemporaryDirectory(prefix="relay-restore-") as folder:
            put_log(directory / copy.name, Path(folder) / "redis" / LOG)
            try:
                asyncio.run(fill(settings, Path(folder), which, is_first=number == 1, is_last=number == len(copies)))
            except StoreUnavailable as unavailable:
                raise out_of_reach(settings.redis_url, settings.store_timeout, unavailable) from unavailable


async def _from(settings: Settings, given: argparse.Namespace) -> tuple[Backup, Sequence[str]]:
    async with fetched(settings, given.place) as directory:
        return await asyncio.to_thread(restore, settings, directory, without_damaged=given.without_damaged)


def _run(settings: Settings, given: argparse.Namespace) -> int:
    try:
        backup, lost = asyncio.run(_from(settings, given))
    except BackupError as error:
        raise ConfigError(str(error)) from error
    where = "RELAY_REDIS_URL" if settings.redis_url else str(settings.data_dir)
    sys.stdout.write(f"{where} now holds the node {backup.node_id} as it was at {backup.created_at}\n")
    for setting in backup.keys_elsewhere:
        sys.stdout.write(f"{setting} is not in the backup: set it to the value that the node had\n")
    if backup.blob_url:
        sys.stdout.write(f"the bytes of its artifacts are at {backup.blob_url}\n")
    for name in lost:
        sys.stdout.write(f"damaged, so not restored: the bytes of artifact {name}\n")
    return LOSSES if lost else 0
