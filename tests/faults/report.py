"""The figures of a run, printed as a table at the end of a full run (docs/durability.md)."""

from collections.abc import Iterable

import msgspec


class Row(msgspec.Struct, frozen=True):
    """What one fault cost."""

    fault: str
    times: int
    """How often the fault was caused."""
    acknowledged: int
    refused: int
    """Number of 503 answers."""
    longest: float | None
    """Longest time in seconds for which refusals continued after the end of the fault; None if not measured."""
    lost: int
    """Number of acknowledged writes that are missing."""
    twice: int
    """Number of writes that are there more than once."""


HEADINGS = ("fault", "times", "acknowledged", "503", "recovery (s)", "lost", "twice")

ROWS: list[Row] = []


def table(rows: Iterable[Row]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = [HEADINGS, ("---",) * len(HEADINGS)]
    for row in rows:
        *counts, longest, lost, twice = msgspec.structs.astuple(row)
        lines.append((*map(str, counts), "" if longest is None else f"{longest:.2f}", str(lost), str(twice)))
    return [f"| {' | '.join(line)} |" for line in lines]
