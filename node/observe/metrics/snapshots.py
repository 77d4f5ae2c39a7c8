"""The folder in which the processes of one instance write what they have counted, one file each.

Every process writes its whole state each time, so a reader adds the files up. A process that starts takes over the file
of a dead one and counts on from there: no sum ever falls, and files do not pile up. The multiprocess files of
`prometheus_client` are not used: they are memory-mapped, and a process that writes to one on a full disk is killed
(SIGBUS), whereas a write to one of the files here merely fails.
"""

import os
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from node.common import process
from node.common.folder_lock import locked
from node.config import ConfigError
from node.observe.metrics.families import FAMILIES, Kind

ALIVE_SECONDS = 10.0
"""Seconds without a write after which a process does not count as alive: its event loop may be stuck."""

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the parent of a private directory; writing there waits for no disk

PREFIX = "relay-node-metrics-"
"""Prefix of the names of temporary folders, which are removed at the end."""

NEW_SECONDS = 60.0
"""Age, in seconds, below which a folder never counts as a leftover: its process may be about to lock it."""

DRAINING = "draining"
"""Name of the file that says that the instance is about to stop."""

BEGUN = "begun"
"""Name of the file whose modification time is when the instance started."""


class Reading(msgspec.Struct, array_like=True):
    """One value of one metric. A histogram also has buckets, and its value is the sum."""

    family: str
    labels: tuple[str, ...]
    value: float
    buckets: list[int] = []


class Snapshot(msgspec.Struct):
    """The state of one process."""

    role: str
    pid: int
    written_at: float = msgspec.field(name="beat")
    """Seconds of the system's monotonic clock, which all processes share."""
    readings: list[Reading]
    inherited: list[Reading] = []
    """Counters and histograms of processes that died earlier."""

    @property
    def is_alive(self) -> bool:
        """Whether the process exists, and its event loop is not stuck."""
        return 0 <= time.monotonic() - self.written_at <= ALIVE_SECONDS and process.exists(self.pid)


_NAME = re.compile(r"[a-z]+-(\d{1,9})-\d+\.counts")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Snapshot).decode


@contextmanager
def folder_of(given: str) -> Generator[Path]:
    """Yield the folder at `given`, which stays, or else a new one, which is removed at the end. Raises ConfigError."""
    if given:
        path = Path(given)
        try:
            path.mkdir(parents=True, exist_ok=True)
            (path / DRAINING).unlink(missing_ok=True)
            (path / BEGUN).touch()
        except OSError as error:
            raise ConfigError(f"RELAY_METRICS_DIR={given!r}: {error.strerror}; choose another directory") from error
        yield path
        return
    base = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
    for left in base.glob(PREFIX + "*"):
        _remove_left(left)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=base, ignore_cleanup_errors=True) as made, locked(Path(made)):
        yield Path(made)


def _remove_left(folder: Path) -> None:
    """Remove the folder of a killed instance: one of this user that is not new and that no process has locked."""
    with suppress(OSError):  # locked, another user's, or gone by now
        about = folder.stat()
        if about.st_uid == os.geteuid() and time.time() - about.st_mtime > NEW_SECONDS:
            with locked(folder):
                shutil.rmtree(folder)


def drain(given: str) -> None:
    """Mark this instance as about to stop, so that `/ready` answers 503 from now on. Does nothing without a folder."""
    if given:
        with suppress(OSError):  # the folder may be gone, and the instance has to stop all the same
            (Path(given) / DRAINING).touch()


def new_path(folder: Path, role: str, pid: int) -> Path:
    """Return the file for a process that starts now. Its name has the time: a later process may get the same pid."""
    return folder / f"{role}-{pid}-{time.time_ns()}.counts"


def write(path: Path, snapshot: Snapshot) -> None:
    """Replace the file at `path`. A reader sees either the old state or the new one. Raises OSError.

    The folder is made again if something, such as a cleaner of temporary files, has removed it: without the folder,
    `/live` would report a serving node as dead.
    """
    path.parent.mkdir(mode=0o700, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_bytes(_encode(snapshot))
    new.replace(path)


def read(folder: Path) -> list[Snapshot]:
    """Return the snapshots of all processes, including dead ones whose files were not taken over."""
    while True:
        with suppress(FileNotFoundError):  # a file was taken over in the meantime and has another name: look again
            return [snapshot for path in folder.glob("*.counts") if (snapshot := _load(path))]


def take_over(path: Path) -> tuple[list[Reading], bool]:
    """Rename the file of a dead process to `path`.

    Returns the counters and histograms of that process, none if there is no such file; and whether the process was of
    this instance: only then has it been restarted. Of several processes, the first to rename the file gets it. The
    owner's pid is the one in the file's name, not the one in the file, which a new owner may not have written yet. A
    file with this process's own pid is of an earlier process, for example in a container. Raises OSError.
    """
    began = _last_write(path.parent / BEGUN)
    for left in sorted(path.parent.glob("*.counts"), key=_last_write, reverse=True):
        owner = _owner(left)
        if owner == os.getpid() or not (owner is None or process.exists(owner)):
            with suppress(FileNotFoundError):
                left.rename(path)
                snapshot = _load(path)
                return add([snapshot] if snapshot else [], only=("counter", "histogram")), _last_write(path) > began
    return [], False


def _owner(path: Path) -> int | None:
    """Return the pid in the name of a file (`new_path`); None if the name has another form."""
    named = _NAME.fullmatch(path.name)
    return int(named[1]) if named else None


def _last_write(path: Path) -> float:
    """Return when the file was last written, in seconds since 1970; 0 if it is gone."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _load(path: Path) -> Snapshot | None:
    """Return the content of a file; None if it is damaged, as after a power failure. Raises OSError."""
    try:
        return _decode(path.read_bytes())
    except ValueError:  # DecodeError of msgspec, or UnicodeDecodeError
        return None


def add(snapshots: Iterable[Snapshot], only: Iterable[Kind] = ("counter", "gauge", "histogram")) -> list[Reading]:
    """Return one reading for each metric and its labels: counters of all processes, gauges of those that are alive."""
    sums: dict[tuple[str, tuple[str, ...]], Reading] = {}
    for snapshot in snapshots:
        kinds = set(only) if snapshot.is_alive else set(only) - {"gauge"}
        for reading in (*snapshot.inherited, *snapshot.readings):
            family = FAMILIES.get(reading.family)  # an older version may have counted what this one does not know
            if family is None or family.kind not in kinds:
                continue
            total = sums.setdefault((reading.family, reading.labels), Reading(reading.family, reading.labels, 0.0))
            total.value = max(total.value, reading.value) if family.merge == "max" else total.value + reading.value
            sums_so_far = total.buckets or [0] * len(reading.buckets)
            total.buckets = [a + b for a, b in zip(sums_so_far, reading.buckets, strict=True)]
    return [sums[key] for key in sorted(sums)]


def alive(snapshots: Iterable[Snapshot]) -> Counter[str]:
    """Return how many processes of each role are alive."""
    return Counter(snapshot.role for snapshot in snapshots if snapshot.is_alive)
