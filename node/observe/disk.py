"""Free space on the local disks that a node writes to: that of the embedded Redis, and that of artifacts.

An embedded Redis exits if it cannot write its log, so writes are refused before that happens (`memory`). The artifact
store leaves RELAY_BLOB_RESERVE free by itself. The disk of an external Redis is for its operator to watch.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from node.common.file_access import existing
from node.config import Settings


class DiskSpace(msgspec.Struct, frozen=True):
    """The file system that a directory is on; sizes in bytes."""

    use: Literal["redis", "blobs"]
    directory: Path
    free: int
    """Bytes that this user may still write."""
    size: int


def disks(settings: Settings) -> Iterator[DiskSpace]:
    """Yield the local disks that the node writes to."""
    redis = (settings.data_dir / "redis").absolute()
    path = existing(redis)
    is_to_be_made = not settings.redis_url and path != redis and os.access(path, os.X_OK)
    if is_to_be_made or redis_directory(settings):
        yield space("redis", path)
    if blobs := settings.blob_directory:
        yield space("blobs", existing(blobs.absolute()))


def reserve_of(settings: Settings, disk: DiskSpace) -> tuple[int, str]:
    """Return how many bytes the node leaves free on a disk (0: it may fill the disk), and the setting that says so."""
    if disk.use == "redis":
        return settings.disk_reserve, "RELAY_DISK_RESERVE"
    return settings.blob_reserve, "RELAY_BLOB_RESERVE"


def redis_directory(settings: Settings) -> Path | None:
    """Return the directory of the embedded Redis; None if its log is not on this machine, or not this user's."""
    directory = settings.data_dir / "redis"
    is_embedded = not settings.redis_url or settings.redis_url.startswith("unix://")
    return directory if is_embedded and os.access(directory / "appendonlydir", os.F_OK) else None


def space(use: Literal["redis", "blobs"], directory: Path) -> DiskSpace:
    """Return the space of the file system that a directory is on. Raises OSError."""
    found = os.statvfs(directory)
    return DiskSpace(use, directory, found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)
