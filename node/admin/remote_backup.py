"""Backups in an S3 bucket: `s3://<bucket>/<prefix>`, with the AWS_* variables.

A backup is made in a temporary directory and then sent, its backup.json last. To be checked or restored, it is first
fetched into a temporary directory. A large file is sent in parts, since S3 takes at most 5 GiB in one request. A backup
may be sent to the place of an earlier one: what only the earlier one had stays in the bucket and is ignored.
"""

import asyncio
import math
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path

from node.admin.backup import CHUNK_BYTES, MANIFEST, STAMP, STAMPED, BackupError, read_manifest, superseded
from node.common.private_files import open_private
from node.config import Settings
from node.run.bucket_files import BlobMissing, BlobUnavailable, BucketFiles, bucket_files_at

PART_BYTES = 1024**3
"""Size of the largest object that is sent."""

MAX_SEND = timedelta(days=1)
"""A backup that began longer ago than this and has no manifest counts as killed. In a bucket, nothing else
distinguishes it from one that is still being sent."""

PART = ".part-"
"""Separates the name of a file from the number of its part. The first part has the name of the file alone."""


def is_remote(place: str) -> bool:
    """Return whether a place is in a bucket rather than a directory."""
    return place.startswith("s3:")


@asynccontextmanager
async def bucket_at(settings: Settings, place: str) -> AsyncGenerator[BucketFiles]:
    """Open the files below a place in a bucket. Raises BackupError, also if the bucket fails inside the block."""
    try:
        bucket = bucket_files_at(settings, place)
    except ValueError as error:
        raise BackupError(str(error)) from error
    try:
        yield bucket
    except (BlobUnavailable, BlobMissing) as error:
        raise BackupError(f"{place}: {error}") from error
    finally:
        await bucket.close()


async def send(bucket: BucketFiles, directory: Path, under: str = "") -> None:
    """Send all files of a directory, the manifest of a backup last.

    Raises BlobUnavailable, after removing what was sent. If the bucket has a manifest, nothing is removed: the manifest
    belongs to an earlier backup, which may need the same files, or to this one, if only the answer to its upload was
    lost.
    """
    sent: list[str] = []
    try:
        for path in await asyncio.to_thread(_files, directory):
            name = under + path.relative_to(directory).as_posix()
            size = path.stat().st_size
            for number, start in enumerate(range(0, max(size, 1), PART_BYTES)):
                length = min(PART_BYTES, size - start)
                digest = sha256()
                async for chunk in _read(path, start, length):
                    digest.update(chunk)
                part = f"{name}{PART}{number:04}" if number else name
                await bucket.put(part, _read(path, start, length), length, digest.digest())
                sent.append(part)
    except BaseException:
        with suppress(BlobUnavailable):
            if under + MANIFEST not in await bucket.names():
                await _delete(bucket, sent)
        raise


@asynccontextmanager
async def fetched(settings: Settings, place: str) -> AsyncGenerator[Path]:
    """Yield a directory with the backup: the place itself, or a temporary directory to which the backup is fetched.

    Raises BackupError.
    """
    if not is_remote(place):
        yield Path(place)
        return
    with tempfile.TemporaryDirectory(prefix="relay-backup-") as folder:
        directory = Path(folder)
        async with bucket_at(settings, place) as bucket:
            names = set(await bucket.names())
            if MANIFEST not in names:
                raise BackupError(f"{place} is not a whole backup: it has no {MANIFEST}")
            await _fetch(bucket, MANIFEST, directory / MANIFEST)
            sizes = {file.name: file.byte_size for file in read_manifest(directory).files}
            # In the order of their names, the parts of a file come one after the other; the first has no number.
            for name in sorted(names - {MANIFEST}):
                file, _, part = name.partition(PART)
                path = _path_of(file, directory)
                # A longer file of an earlier backup at this place has left surplus parts: skip those.
                if not part or _size(path) < sizes.get(file, math.inf):
                    await _fetch(bucket, name, path, appended=bool(part))
        yield directory


async def _fetch(bucket: BucketFiles, name: str, path: Path, *, appended: bool = False) -> None:
    """Write an object to a new file, or append it to an existing one.

    Raises BackupError, BlobUnavailable, BlobMissing.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("ab") if appended else open_private(path) as file:
            async for piece in bucket.get(name):
                await asyncio.to_thread(file.write, piece)
    except OSError as error:
        raise BackupError(f"{path}: {error.strerror}; $TMPDIR must have room for the whole backup") from error


async def remove_all_but_remote(bucket: BucketFiles, keep: int, made: str) -> tuple[list[str], list[str]]:
    """Remove the `superseded` backups below a place, and those whose sending was killed.

    Return those removed, and those that could not be removed, with the reason. Raises BlobUnavailable.
    """
    names = await bucket.names()
    whole = {name.removesuffix(f"/{MANIFEST}") for name in names if name.endswith(f"/{MANIFEST}")}
    begun = {name.partition("/")[0] for name in names}
    last = (datetime.strptime(made, STAMP) - MAX_SEND).strftime(STAMP)
    killed = sorted(name for name in begun - whole if STAMPED.fullmatch(name) and name < last)
    gone: list[str] = []
    left: list[str] = []
    for backup in (*superseded(whole, made, keep), *killed):
        manifest, files = f"{backup}/{MANIFEST}", (name for name in names if name.startswith(f"{backup}/"))
        try:
            await _delete(bucket, sorted(files, key=lambda name: name != manifest))
        except BlobUnavailable as error:
            left.append(f"{backup}: {error}")
        else:
            gone.append(backup)
    return gone, left


async def _delete(bucket: BucketFiles, names: Iterable[str]) -> None:
    for name in names:
        await bucket.delete(name)


def _files(directory: Path) -> list[Path]:
    """Return all files below a directory, the manifest of a backup last."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return sorted(files, key=lambda path: path.name == MANIFEST)


def _path_of(name: str, directory: Path) -> Path:
    """Return the path of the file of that name. Raises BackupError if it leads out of the directory."""
    path = (directory / name).resolve()
    if not path.is_relative_to(directory.resolve()):
        raise BackupError(f"{name!r} is not the name of a file of a backup")
    return path


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


async def _read(path: Path, start: int, length: int) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        file.seek(start)
        while length:
            chunk = await asyncio.to_thread(file.read, min(length, CHUNK_BYTES))
            length -= len(chunk)
            yield chunk
