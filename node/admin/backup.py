"""A backup of a node that goes on serving: Redis, the two keys, and the bytes of artifacts on a local disk.

    <directory>/redis-0.rdb …        one for each primary
               /secret, signing-key  if they are kept in the data directory
               /blobs/…              if the blob store is a directory
               /backup.json          the list of all that, written last: a backup without it is incomplete

No other user can read any of it at any time: it holds what is unlisted, and the keys to it. Redis is copied before the
bytes of artifacts, so an artifact that is available there has all of its bytes in the backup. Everything that was
acknowledged before the command began is in it. `restore` makes a data directory of it.
"""

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import file_digest
from pathlib import Path

import msgspec

from node import VERSION
from node.common.private_files import open_private
from node.config import Settings
from node.run.blobs import blob_directory
from node.store import Store
from node.store.address import locate
from node.store.snapshot import primaries, snapshot

MANIFEST = "backup.json"
KEYS = ("secret", "signing-key")
BLOBS = "blobs"
CHUNK_BYTES = 1024 * 1024
"""Copied at a time."""

NO_ARTIFACT = {".part", ".gone"}
"""Suffixes in the embedded blob store of uploads under way, and of marks that an artifact was deleted."""


class Copied(msgspec.Struct, frozen=True):
    """One file of a backup."""

    name: str
    byte_size: int
    sha256: str
    slots: list[str] = []
    """Of a Redis Cluster: the hash slots that the server had."""


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds."""

    version: str
    node_id: str
    created_at: str
    redis: list[Copied]
    keys: list[Copied]
    """Empty if RELAY_SECRET and RELAY_SIGNING_KEY are kept elsewhere: no backup reads the environment."""
    blobs: int
    """How many files of artifacts."""
    blob_bytes: int
    blob_url: str
    """Where the bytes of artifacts are; empty if they are in the backup."""


class BackupError(Exception):
    """A backup that cannot be made or used; the message says what to do."""


async def back_up(settings: Settings, store: Store, directory: Path) -> Backup:
    """Make a backup in a directory that is new or empty. Raises BackupError, StoreUnavailable."""
    try:
        return await _back_up(settings, store, directory)
    except OSError as error:
        raise BackupError(f"{error.filename or directory}: {error.strerror}") from error


async def _back_up(settings: Settings, store: Store, directory: Path) -> Backup:
    _prepare(directory)
    location = locate(settings.redis_url)
    redis: list[Copied] = []
    for number, primary in enumerate(await primaries(store, location)):
        path = directory / f"redis-{number}.rdb"
        await snapshot(primary.server, location, path)
        redis.append(copied(path, primary.slots))
    keys = [name for name in KEYS if (settings.data_dir / name).exists()]
    for name in keys:
        copy_private(settings.data_dir / name, directory / name)
    blobs = blob_directory(settings)
    sizes = list(_copy_blobs(blobs, directory)) if blobs else []
    backup = Backup(
        version=VERSION,
        node_id=settings.node_id,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        redis=redis,
        keys=[copied(directory / name) for name in keys],
        blobs=len(sizes),
        blob_bytes=sum(sizes),
        blob_url="" if blobs else settings.blob_url,
    )
    _write_manifest(directory, backup)
    return backup


def _prepare(directory: Path) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise BackupError(f"{directory} is not empty: name a new directory")
    directory.chmod(0o700)


def copied(path: Path, slots: list[str] | None = None) -> Copied:
    """The record of a file."""
    with path.open("rb") as file:
        return Copied(path.name, path.stat().st_size, file_digest(file, "sha256").hexdigest(), slots or [])


def blobs_in(directory: Path) -> Iterator[Path]:
    """The files of artifacts below the directory of an embedded blob store."""
    return (path for path in directory.glob("??/*") if path.suffix not in NO_ARTIFACT)


def copy_blob(path: Path, source: Path, target: Path) -> int | None:
    """Copy one file to the same place below `target`. Returns its size, or None if it was deleted meanwhile."""
    place = target / path.relative_to(source)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        copy_private(path, place)
    except FileNotFoundError:
        return None
    return place.stat().st_size


def _copy_blobs(source: Path, directory: Path) -> Iterator[int]:
    for path in blobs_in(source):
        size = copy_blob(path, source, directory / BLOBS)
        if size is not None:
            yield size


def copy_private(source: Path, target: Path) -> None:
    """Make `target` a copy that only this user can read. Raises FileNotFoundError if there is no `source`."""
    with source.open("rb") as old:
        target.unlink(missing_ok=True)  # of a restore that was interrupted
        with open_private(target) as new:
            shutil.copyfileobj(old, new, CHUNK_BYTES)


def _write_manifest(directory: Path, backup: Backup) -> None:
    new = directory / f"{MANIFEST}.new"
    with open_private(new) as file:
        file.write(msgspec.json.format(msgspec.json.encode(backup)))
        file.flush()
        os.fsync(file.fileno())
    new.rename(directory / MANIFEST)
