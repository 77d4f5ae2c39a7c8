"""Backs up a node while it serves: Redis, the two keys, and the bytes of artifacts on a local disk.

    <directory>/redis-0.rdb …        one for each primary
               /secret, signing-key  if they are kept in the data directory, not given by a setting
               /blobs/…              if the blob store is a directory
               /blobs.jsonl          size and digest of each file in blobs/, one a line
               /backup.json          the list of all these files, written last, after the rest is synced to disk:
                                     a backup without it is incomplete

No other user can read any of it at any time: a backup holds unlisted content, and the keys to it. Redis is copied
before the bytes of artifacts, so the backup has all bytes of an artifact that is available in the copy. Everything that
was acknowledged before the command began is included. `restore` makes a node from a backup; `node.admin.remote_backup`
keeps backups in S3.

If the digest of an artifact's bytes differs from the one in its manifest, the bytes were damaged before. They are
reported and left out: a node restored with them would serve them as intact.
"""

import os
import re
import shutil
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from hashlib import file_digest, sha256
from pathlib import Path

import msgspec

from node import VERSION
from node.admin.backup_space import BackupSpace
from node.common.disk_sync import sync, sync_all
from node.common.folder_lock import locked
from node.common.private_files import open_private
from node.config import Settings
from node.run import keychain
from node.run.blobs import blob_directory
from node.run.data_directory import NO_ROOM
from node.store import Store
from node.store.address import locate
from node.store.snapshot import primaries, snapshot

MANIFEST = "backup.json"
KEYS = {"RELAY_SECRET": keychain.SECRET, "RELAY_SIGNING_KEY": keychain.SIGNING_KEY}
"""Names of the key files, by the setting that can give the key instead."""
BLOBS = "blobs"
BLOB_LIST = "blobs.jsonl"
STAMP = "%Y-%m-%dT%H%M%SZ"
"""Format of a backup's name if it is named by the time; such names sort by time."""

STAMPED = re.compile(r"\d{4}-\d\d-\d\dT\d{6}Z")
"""Matches names in that format. The operator chose every other name, and only the operator removes such a backup."""

CHUNK_BYTES = 1024 * 1024
"""Bytes read and written at a time."""

NO_ARTIFACT = {".part", ".gone"}
"""Suffixes of files in the embedded blob store that are not artifacts: uploads in progress, and tombstones."""


class BackupFile(msgspec.Struct, frozen=True):
    """One file of a backup."""

    name: str
    byte_size: int
    sha256: str
    slots: list[str] = []
    """Hash slots that the server had, if the file is a copy from a Redis Cluster."""


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds."""

    version: str
    node_id: str
    created_at: str
    redis: list[BackupFile]
    keys: list[BackupFile]
    """Key files. A key that RELAY_SECRET or RELAY_SIGNING_KEY gives is not copied."""
    blobs: int
    """Number of artifact files."""
    blob_bytes: int
    blob_list: BackupFile | None = None
    """The file with the sizes and digests of the artifact files; None in a backup made by version 1.0."""
    damaged: list[str] = []
    """Ids of artifacts whose bytes were already damaged and are left out."""
    blob_url: str
    """Where the bytes of artifacts are; empty if they are in the backup."""

    @property
    def keys_elsewhere(self) -> list[str]:
        """The settings whose keys are not in the backup."""
        names = {key.name for key in self.keys}
        return [setting for setting, name in KEYS.items() if name not in names]

    @property
    def files(self) -> list[BackupFile]:
        """All files except the bytes of artifacts."""
        return [*self.redis, *self.keys, *([self.blob_list] if self.blob_list else [])]


class BackupError(Exception):
    """A backup that cannot be made or used; the message says what to do."""


async def back_up(settings: Settings, store: Store, directory: Path, digests: Mapping[str, str]) -> Backup:
    """Make a backup in a directory that is new or empty. Raises BackupError, StoreUnavailable.

    `digests`: SHA-256 of the bytes of each available artifact, by id.
    """
    try:
        with _prepared(directory):
            return await _back_up(settings, store, directory, digests)
    except OSError as error:
        raise BackupError(f"{error.filename or directory}: {error.strerror}") from error


async def _back_up(settings: Settings, store: Store, directory: Path, digests: Mapping[str, str]) -> Backup:
    location = locate(settings.redis_url)
    space = BackupSpace(settings, directory)
    redis: list[BackupFile] = []
    for number, primary in enumerate(await primaries(store, location)):
        path = directory / f"redis-{number}.rdb"
        await snapshot(primary.server, location, path, space.take)
        redis.append(copied(path, primary.slots))
    if sorted(file.slots for file in redis) != sorted(each.slots for each in await primaries(store, location)):
        # Entries that moved from a server not yet copied to one already copied are in neither copy.
        raise BackupError("slots of the Redis Cluster moved during the backup: repeat it when none are moving")
    keys = list(keychain.files_in_use(settings))
    for key in keys:
        copy_private(key, directory / key.name)
    blobs = blob_directory(settings)
    if blobs:
        (directory / BLOBS).mkdir(mode=0o700)
    kept: list[BackupFile] = []
    damaged: list[str] = []
    for blob in _copy_blobs(blobs, directory, space) if blobs else ():
        name = Path(blob.name).name
        if digests.get(name, blob.sha256) == blob.sha256:
            kept.append(blob)
        else:
            (directory / BLOBS / blob.name).unlink()
            damaged.append(name)
    with open_private(directory / BLOB_LIST) as file:
        file.writelines(msgspec.json.encode(blob) + b"\n" for blob in kept)
    backup = Backup(
        version=VERSION,
        node_id=settings.node_id,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        redis=redis,
        keys=[copied(directory / key.name) for key in keys],
        blobs=len(kept),
        blob_bytes=sum(blob.byte_size for blob in kept),
        blob_list=copied(directory / BLOB_LIST),
        damaged=damaged,
        blob_url="" if blobs else settings.blob_url,
    )
    sync_all(directory)
    _write_manifest(directory, backup)
    return backup


@contextmanager
def _prepared(directory: Path) -> Generator[None]:
    """Create the directory, and remove it if the backup fails: the next backup needs the room."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise BackupError(f"{directory} is not empty: name a new directory")
    directory.chmod(0o700)
    with ExitStack() as stack:
        with suppress(OSError):  # a network file system may have no locks; then `remove_remains` removes nothing either
            stack.enter_context(locked(directory))
        try:
            yield
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise


def copied(path: Path, slots: list[str] | None = None) -> BackupFile:
    """Return the record of a file."""
    with path.open("rb") as file:
        return BackupFile(path.name, path.stat().st_size, file_digest(file, "sha256").hexdigest(), slots or [])


def read_manifest(directory: Path) -> Backup:
    """Return the manifest of a backup. Raises BackupError."""
    try:
        return msgspec.json.decode((directory / MANIFEST).read_bytes(), type=Backup)
    except PermissionError as error:
        raise BackupError(
            f"{directory} cannot be read: {error.strerror}; run this command as the user who owns it"
        ) from error
    except (OSError, ValueError) as error:  # DecodeError of msgspec, or UnicodeDecodeError
        raise BackupError(f"{directory} is not a whole backup: its {MANIFEST} is missing or damaged") from error


def check(directory: Path) -> tuple[Backup, Sequence[BackupFile], Sequence[str]]:
    """Compare every file of a backup with what was written.

    Return the manifest, the sound artifact files, and the ids of the artifacts whose files are missing or damaged.
    Raises BackupError if any other file is missing or damaged.
    """
    backup = read_manifest(directory)
    for file in backup.files:
        if not _is_sound(directory / file.name, file):
            raise BackupError(f"{directory / file.name} is missing or damaged: use another backup")
    if not backup.blob_list:
        found = [msgspec.structs.replace(copied(path), name=name) for path, name in _named(directory / BLOBS)]
        if (len(found), sum(blob.byte_size for blob in found)) != (backup.blobs, backup.blob_bytes):
            raise BackupError(f"{directory / BLOBS} does not hold the files that were backed up: use another backup")
        return backup, found, ()
    lines = (directory / BLOB_LIST).read_bytes().splitlines()
    blobs = [msgspec.json.decode(line, type=BackupFile) for line in lines]
    sound = [blob for blob in blobs if _is_sound(directory / BLOBS / blob.name, blob)]
    names = {blob.name for blob in sound}
    return backup, sound, [Path(blob.name).name for blob in blobs if blob.name not in names]


def _is_sound(path: Path, file: BackupFile) -> bool:
    try:
        found = copied(path)
    except OSError:
        return False
    return (found.byte_size, found.sha256) == (file.byte_size, file.sha256)


def _named(directory: Path) -> Iterator[tuple[Path, str]]:
    """Yield each artifact file of an embedded blob store, with its name relative to `directory`."""
    for path in directory.glob("??/*"):
        if path.suffix not in NO_ARTIFACT:
            yield path, path.relative_to(directory).as_posix()


def _copy_blobs(source: Path, directory: Path, space: BackupSpace) -> Iterator[BackupFile]:
    for path, name in _named(source):
        try:
            space.take(path.stat().st_size)
            yield copy_private(path, directory / BLOBS / name, name)
        except FileNotFoundError:  # deleted meanwhile
            continue


def copy_private(source: Path, target: Path, name: str = "") -> BackupFile:
    """Copy `source` to `target`, which only this user can read.

    Raises FileNotFoundError if there is no `source`; any other OSError names the file that failed.
    """
    with source.open("rb") as old:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        target.unlink(missing_ok=True)  # left by an interrupted restore
        digest, size = sha256(), 0
        try:
            with open_private(target) as new:
                while chunk := old.read(CHUNK_BYTES):
                    digest.update(chunk)
                    size += len(chunk)
                    new.write(chunk)
        except OSError as error:  # an error of read() or write() does not name the file
            path = error.filename or (target if error.errno in NO_ROOM else source)
            raise OSError(error.errno, error.strerror, str(path)) from error
    return BackupFile(name or target.name, size, digest.hexdigest())


def superseded(names: Iterable[str], made: str, keep: int) -> list[str]:
    """Return the backups to remove: of those named by time, all but the newest `keep`, one of which is `made`."""
    others = sorted(name for name in names if STAMPED.fullmatch(name) and name != made)
    return others[: max(0, len(others) - keep + 1)]


def remove_remains(directory: Path) -> None:
    """Remove incomplete backups that are named by time, except those that are being made.

    They are left by processes that were killed while they made or removed a backup.
    """
    for path in directory.glob("*/"):
        with suppress(OSError):  # locked, or owned by another user
            if STAMPED.fullmatch(path.name) and not (path / MANIFEST).exists():
                with locked(path):
                    shutil.rmtree(path)


def remove_all_but(directory: Path, keep: int, made: str) -> tuple[list[str], list[str]]:
    """Remove the `superseded` backups below the directory.

    Return those removed, and those that could not be removed, with the reason.
    """
    whole = (path.parent.name for path in directory.glob(f"*/{MANIFEST}"))
    gone: list[str] = []
    left: list[str] = []
    for name in superseded(whole, made, keep):
        path = directory / name
        try:
            (path / MANIFEST).unlink()  # first, so that what an interrupted removal leaves is not taken for a backup
            shutil.rmtree(path)
        except OSError as error:
            left.append(f"{path}: {error.strerror}")
        else:
            gone.append(str(path))
    return gone, left


def _write_manifest(directory: Path, backup: Backup) -> None:
    new = directory / f"{MANIFEST}.new"
    with open_private(new) as file:
        file.write(msgspec.json.format(msgspec.json.encode(backup)))
        file.flush()
        os.fsync(file.fileno())
    new.rename(directory / MANIFEST)
    sync(directory)
    sync(directory.parent)
