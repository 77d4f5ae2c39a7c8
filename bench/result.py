"""The results of a benchmark: rows of figures, each the median of several runs with its spread.

results.json is exactly these structs; Markdown and plots are made from them (report.py, plots.py).
"""

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Self

import msgspec

from bench.client import NO_ANSWER

NODE = "relay-node"
"""The subject of rows and points that were measured on the node and not on a peer."""

PACKAGES = ("granian", "uvloop", "litestar", "redis", "hiredis", "msgspec")
"""Packages whose versions affect the figures."""


class Spread(msgspec.Struct, frozen=True):
    """A figure's median and range, and its value in each run, in the order the runs were taken."""

    median: float
    low: float
    high: float
    runs: list[float]

    @classmethod
    def of(cls, runs: Sequence[float]) -> Self:
        kept = [round(run, 4) for run in runs]
        return cls(round(statistics.median(kept), 4), min(kept), max(kept), kept)


class Row(msgspec.Struct, kw_only=True):
    """One thing measured on one server."""

    scenario: str
    subject: str
    what: str
    rate: float | None = None  # requests due per second; None in a closed loop
    connections: int = 0
    figures: dict[str, Spread] = {}
    statuses: dict[str, int] = {}
    settings: dict[str, str] = {}
    redis_settings: dict[str, str] = {}
    distribution: str = ""  # HdrHistogram of all runs together, as text
    shown: bool = True  # whether the report shows the row; otherwise a table sums it up

    def median(self, name: str) -> float | None:
        figure = self.figures.get(name)
        return None if figure is None else figure.median

    @property
    def requests_per_s(self) -> float:
        return self.median("requests_per_s") or 0.0

    @property
    def cpu_us(self) -> float:
        """CPU time of web process and Redis together per answered request, in µs."""
        return (self.median("web_cpu_us") or 0.0) + (self.median("redis_cpu_us") or 0.0)


class Point(msgspec.Struct, frozen=True):
    """A single figure rather than a series of runs: sockets closed, winners, recall."""

    scenario: str
    subject: str
    name: str
    value: float
    unit: str = ""
    note: str = ""


class Table(msgspec.Struct, frozen=True):
    """Figures side by side, which rows show one below the other."""

    scenario: str
    title: str
    head: list[str]
    lines: list[list[str | float]]


class Results(msgspec.Struct, kw_only=True):
    """One run of the suite."""

    taken: str
    arguments: list[str]
    machine: dict[str, str]
    rows: list[Row] = []
    points: list[Point] = []
    tables: list[Table] = []
    skipped: list[str] = []

    def row(self, scenario: str, subject: str, what: str) -> Row | None:
        return next((r for r in self.rows if (r.scenario, r.subject, r.what) == (scenario, subject, what)), None)

    def point(self, scenario: str, name: str) -> Point | None:
        return next((p for p in self.points if (p.scenario, p.name) == (scenario, name)), None)


def merged(counts: Sequence[Mapping[int, int]]) -> dict[str, int]:
    """Add up the statuses of all runs, with names for the suite's own ones."""
    total: dict[str, int] = {}
    for count in counts:
        for status, times in count.items():
            name = NO_ANSWER.get(status, str(status))
            total[name] = total.get(name, 0) + times
    return dict(sorted(total.items()))


def machine(data: Path) -> dict[str, str]:
    """Describe the machine, for comparisons: processors, memory, kernel, versions, and the file system of the data."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processors": f"{os.cpu_count()} of {next(models, platform.machine())}",
        "memory": f"{memory:.0f} GiB",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load average at start": f"{os.getloadavg()[0]:.2f}",
        "data on": _file_system(data),
        "versions": ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES),
    }


def _file_system(path: Path) -> str:
    """Return the type of the file system that holds `path`, which determines the cost of fsync."""
    holding = ("", "?")
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, kind = line.split()[:3]
        if path.resolve().is_relative_to(mount) and len(mount) >= len(holding[0]):
            holding = (mount, kind)
    return holding[1]
