"""`relay-node restore`: makes a data directory out of a backup, for a node with the embedded Redis.

Redis reads the copy as the base of a new append-only log, so the node starts as it does after any restart. The log is
put in place last: a restore that was interrupted has made no node yet, and can be repeated.
"""

import argparse
import shutil
import sys
from pathlib import Path

import msgspec

from node.admin.backup import BLOBS, MANIFEST, Backup, BackupError, blobs_in, copied, copy_blob, copy_private
from node.admin.commands import Commands
from node.config import ConfigError, Settings
from node.run.blobs import blob_directory
from node.run.embedded_redis import running

LOG = "appendonlydir"
BASE = "appendonly.aof.1.base.rdb"
LOG_MANIFEST = "appendonly.aof.manifest"


def register(commands: Commands) -> None:
    """The command."""
    parser = commands.add("restore", _run, "make the data directory RELAY_DATA_DIR out of a backup, before `serve`")
    parser.add_argument("directory", type=Path, help="what `relay-node admin backup` made")


def restore(settings: Settings, directory: Path) -> Backup:
    """Make the data directory of the settings. Raises BackupError."""
    try:
        return _restore(settings, directory)
    except OSError as error:
        raise BackupError(f"{error.filename or directory}: {error.strerror}") from error


def _restore(settings: Settings, directory: Path) -> Backup:
    backup = _checked(directory)
    if len(backup.redis) != 1:
        raise BackupError("this is the backup of a cluster: docs/operations.md says how to give each server its part")
    if settings.redis_url:
        raise BackupError("RELAY_REDIS_URL is set: docs/operations.md says how to restore a Redis of your own")
    data, log = settings.data_dir, settings.data_dir / "redis" / LOG
    if log.exists() or running(data):
        raise BackupError(f"{data} holds a node already: set RELAY_DATA_DIR to a new directory")
    blobs = blob_directory(settings)
    if backup.blobs and not blobs:
        raise BackupError("the backup holds the bytes of artifacts: leave RELAY_BLOB_URL empty to have them again")
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    for key in backup.keys:
        copy_private(directory / key.name, data / key.name)
    if blobs:
        for path in blobs_in(directory / BLOBS):
            copy_blob(path, directory / BLOBS, blobs)
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = log.with_name(f"{LOG}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    copy_private(directory / backup.redis[0].name, new / BASE)
    (new / LOG_MANIFEST).write_text(f"file {BASE} seq 1 type b\n")
    new.rename(log)
    return backup


def _checked(directory: Path) -> Backup:
    """Read the backup, and compare every file with what was written. Raises BackupError."""
    try:
        backup = msgspec.json.decode((directory / MANIFEST).read_bytes(), type=Backup)
    except (FileNotFoundError, msgspec.DecodeError) as error:
        raise BackupError(f"{directory} is not a whole backup: its {MANIFEST} is missing or damaged") from error
    for file in (*backup.redis, *backup.keys):
        path = directory / file.name
        if not path.exists() or copied(path, file.slots) != file:
            raise BackupError(f"{path} is missing or damaged: use another backup")
    sizes = [path.stat().st_size for path in blobs_in(directory / BLOBS)]
    if (len(sizes), sum(sizes)) != (backup.blobs, backup.blob_bytes):
        raise BackupError(f"{directory / BLOBS} does not hold what was written: use another backup")
    return backup


def _run(settings: Settings, given: argparse.Namespace) -> int:
    try:
        backup = restore(settings, given.directory)
    except BackupError as error:
        raise ConfigError(str(error)) from error
    sys.stdout.write(f"{settings.data_dir} is the node {backup.node_id} as it was at {backup.created_at}\n")
    if not backup.keys:
        sys.stdout.write("it had its keys from elsewhere: set RELAY_SECRET and RELAY_SIGNING_KEY to the same\n")
    if backup.blob_url:
        sys.stdout.write(f"the bytes of its artifacts are at {backup.blob_url}\n")
    return 0
