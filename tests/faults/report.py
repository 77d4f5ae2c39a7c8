"""The figures of a run, which the full one prints as a table at its end (docs/durability.md)."""

from collections.abc import Iterable

import msgspec


class Row(msgspec.Struct, frozen=True):
    """What one fault cost."""

    fault: str
    times: int
    """How often it struck."""
    acknowledged: int
    refused: int
    """Answers 503."""
    longest: float | None
    """Seconds that refusals went on, at most, after the fault was over; None where that was not measured."""
    lost: int
    """Acknowledged writes that are not there."""
    twice: int
    """Writes that are there more than once."""


HEADINGS = ("fault", "times", "acknowledged", "503", "recovery (s)", "lost", "twice")

ROWS: list[Row] = []


def table(rows: Iterable[Row]) -> list[str]:
    """Lines of Markdown."""
    lines = [HEADINGS, ("---",) * len(HEADINGS)]
    for row in rows:
        *counts, longest, lost, twice = msgspec.structs.astuple(row)
        lines.append((*map(str, counts), "" if longest is None else f"{longest:.2f}", str(lost), str(twice)))
    return [f"| {' | '.join(line)} |" for line in lines]
