"""The folder in which the processes of one instance leave what they have counted, a file each.

A process writes its whole state again and again, so a reader adds up files. The file of a process
that has died stays: what it counted is part of the sum, which therefore never falls. Many of those
are folded into one, in such an order that a reader that dies half-way counts nothing twice.
"""

import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from node.observe.metrics.families import LOCAL

HEARD = 10.0
"""Seconds without a word after which a process does not count as alive: its event loop may stand still."""

MOST_DEAD = 32
"""Files of dead processes that are left before they are folded into one."""

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the parent of a private directory; writing there waits for no disk

PAST = "past"
DRAINING = "draining"


class Reading(msgspec.Struct, array_like=True):
    """One value of one metric; a histogram has buckets, and the sum as its value."""

    family: str
    labels: tuple[str, ...]
    value: float
    buckets: list[int] = []


class Snapshot(msgspec.Struct):
    """What one process says of itself."""

    role: str
    pid: int
    beat: float
    """When it was written, in seconds of the system's monotonic clock, which all processes share."""
    readings: list[Reading]
    folded: list[str] = []
    """Files whose figures are in this one."""

    @property
    def is_alive(self) -> bool:
        """Whether the process is there, and its event loop turns."""
        return 0 <= time.monotonic() - self.beat <= HEARD and _exists(self.pid)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Snapshot).decode


@contextmanager
def folder_of(given: str) -> Generator[Path]:
    """The folder at `given`, which stays; without one, a new one for as long as the context lasts."""
    if given:
        path = Path(given)
        path.mkdir(parents=True, exist_ok=True)
        (path / DRAINING).unlink(missing_ok=True)
        yield path
        return
    base = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="relay-node-", dir=base, ignore_cleanup_errors=True) as made:
        yield Path(made)


def drain(given: str) -> None:
    """Say that this instance is about to stop: `/ready` answers 503 from now on. Nothing to do without a folder."""
    if given:
        (Path(given) / DRAINING).touch()


def write(path: Path, snapshot: Snapshot) -> None:
    """Replace the file at `path`; a reader sees the old state or the new one. Raises OSError."""
    beside = path.with_suffix(".new")
    beside.write_bytes(_encode(snapshot))
    beside.replace(path)


def read(folder: Path) -> list[Snapshot]:
    """All that was ever left there, each process once."""
    found: dict[str, Snapshot] = {}
    for path in folder.glob("*.counts"):
        with suppress(FileNotFoundError):  # folded meanwhile; the fold is read below
            found[path.stem] = _decode(path.read_bytes())
    with suppress(FileNotFoundError):
        past = _decode((folder / PAST).read_bytes())
        return [past, *(snapshot for name, snapshot in found.items() if name not in past.folded)]
    return list(found.values())


def fold(folder: Path) -> None:
    """Make one file of those that dead processes have left, if they are many. For one caller at a time."""
    dead: dict[str, Snapshot] = {}
    for path in folder.glob("*.counts"):
        snapshot = _decode(path.read_bytes())
        if not _exists(snapshot.pid):
            dead[path.stem] = snapshot
    past = Snapshot("", 0, 0.0, [])
    with suppress(FileNotFoundError):
        past = _decode((folder / PAST).read_bytes())
    for name in past.folded:  # a fold that was cut off before it had removed them
        (folder / f"{name}.counts").unlink(missing_ok=True)
        dead.pop(name, None)
    if len(dead) <= MOST_DEAD:
        return
    merged = Snapshot("", 0, 0.0, add([past, *dead.values()], only=("counter", "histogram")), list(dead))
    write(folder / PAST, merged)
    for name in dead:
        (folder / f"{name}.counts").unlink(missing_ok=True)


def add(snapshots: Iterable[Snapshot], only: Iterable[str] = ("counter", "gauge", "histogram")) -> list[Reading]:
    """One reading for each metric and its labels: counters of all processes, gauges of those that are alive."""
    sums: dict[tuple[str, tuple[str, ...]], Reading] = {}
    for snapshot in snapshots:
        alive = snapshot.is_alive
        for reading in snapshot.readings:
            family = LOCAL.get(reading.family)
            if family is None or family.kind not in only or (family.kind == "gauge" and not alive):
                continue
            sum_ = sums.setdefault((reading.family, reading.labels), Reading(reading.family, reading.labels, 0.0))
            merge = max if family.merge == "max" else float.__add__
            sum_.value = merge(float(sum_.value), float(reading.value))
            sum_.buckets = _added(sum_.buckets, reading.buckets)
    return [sums[key] for key in sorted(sums)]


def alive(snapshots: Iterable[Snapshot]) -> dict[str, int]:
    """How many processes of each role are alive."""
    counts: defaultdict[str, int] = defaultdict(int)
    for snapshot in snapshots:
        counts[snapshot.role] += snapshot.is_alive
    counts.pop("", None)
    return dict(counts)


def _added(one: list[int], other: list[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)] if one and other else list(one or other)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
