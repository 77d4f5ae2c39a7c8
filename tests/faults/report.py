"""The figures of a run; a full run prints them as a table at its end (docs/durability.md)."""

from collections.abc import Iterable

import msgspec


class Row(msgspec.Struct, frozen=True):
    """What one fault cost."""

    fault: str
    times: int
    """How many times the fault was caused."""
    acknowledged: int
    refused: int
    """Answers 503."""
    longest: float | None
    """The longest time in seconds that refusals went on after the fault was over; None if not measured."""
    lost: int
    """Acknowledged writes that are missing."""
    twice: int
    """Writes that are there more than once."""


HEADINGS = ("fault", "times", "acknowledged", "503", "recovery (s)", "lost", "twice")

ROWS: list[Row] = []


def table(rows: Iterable[Row]) -> list[str]:
    """The lines of a Markdown table."""
    lines = [HEADINGS, ("---",) * len(HEADINGS)]
    for row in rows:
        *counts, longest, lost, twice = msgspec.structs.astuple(row)
        lines.append((*map(str, counts), "" if longest is None else f"{longest:.2f}", str(lost), str(twice)))
    return [f"| {' | '.join(line)} |" for line in lines]
