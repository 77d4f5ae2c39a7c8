"""Limits how much of a disk a backup may take: on a disk that the node writes to, the node's reserve stays free.

A backup that took more would make the node refuse writes, and an embedded Redis exits if it cannot write its log.
"""

import errno
import os
from pathlib import Path

from node.config import Settings
from node.observe.disk import disks, reserve_of


class BackupSpace:
    """The disk of an existing directory."""

    def __init__(self, settings: Settings, directory: Path) -> None:
        device = directory.stat().st_dev
        shared = [reserve_of(settings, disk) for disk in disks(settings) if disk.directory.stat().st_dev == device]
        self._directory = directory
        self._reserve, self._setting = max(shared, default=(0, ""))

    def take(self, size: int) -> None:
        """Raise OSError (ENOSPC) if `size` more bytes would leave less than the reserve free."""
        found = os.statvfs(self._directory)
        if self._reserve and found.f_bavail * found.f_frsize - size < self._reserve:
            why = (
                f"no room on this disk beside the {self._reserve} bytes that the node reserves there ({self._setting})"
            )
            raise OSError(errno.ENOSPC, f"{why}: use another disk, or remove an older backup", str(self._directory))
