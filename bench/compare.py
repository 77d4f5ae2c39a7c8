"""Compares a run with the last one that was recorded on the same machine."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.result import NODE, Results, Row

SAME = ("processors", "memory", "python", "data on")
"""The fields of `result.machine` that identify a machine."""

FIGURES = {"requests_per_s": "answered/s", "p50_ms": "p50 ms", "p99_ms": "p99 ms", "web_cpu_us": "web µs"}


class Change(msgspec.Struct, frozen=True):
    """A figure of the node in the earlier run and in this one."""

    scenario: str
    what: str
    figure: str
    before: float
    now: float


def last_of(results: Results, directory: Path) -> Results | None:
    """Return the newest run below `directory` from the same machine that shares a figure with `results`, or None."""
    for path in sorted(directory.glob("*/results.json"), reverse=True):  # a folder's name begins with its time
        before = msgspec.json.decode(path.read_bytes(), type=Results)
        same = all(before.machine.get(name) == results.machine.get(name) for name in SAME)
        if same and before.taken != results.taken and any(changes(before, results)):
            return before
    return None


def changes(before: Results, now: Results) -> Iterator[Change]:
    """Yield the compared figures of every row of the node that both runs have."""
    for row in now.rows:
        known = before.row(row.scenario, row.subject, row.what)
        if known is not None and row.subject == NODE and _alike(row, known):
            for name, shown in FIGURES.items():
                then, here = known.median(name), row.median(name)
                if then and here is not None:
                    yield Change(row.scenario, row.what, shown, then, here)


def _alike(row: Row, known: Row) -> bool:
    """Whether both rows have the same number of connections and the same kind of loop, open or closed.

    The rates of two open loops may differ: half of another ceiling is another rate, and its latencies differ, too.
    """
    return row.connections == known.connections and (row.rate is None) == (known.rate is None)
