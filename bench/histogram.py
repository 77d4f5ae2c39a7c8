"""Latencies as an HdrHistogram: 1 µs to 60 s, three significant digits.

A typed wrapper around the untyped `hdrhistogram` package, which no other module uses. The load generator
collects raw nanoseconds while it runs and fills the histogram afterwards, so that counting costs nothing
during a measurement.
"""

from collections.abc import Iterable
from typing import Any, cast

import hdrh.histogram as hdr  # pyright: ignore[reportMissingTypeStubs]  # the package has no types

SMALLEST_US = 1
LARGEST_US = 60_000_000
DIGITS = 3


class Histogram:
    """Counts of latencies. Values above 60 s count as 60 s."""

    def __init__(self) -> None:
        self._counts: Any = cast("Any", hdr).HdrHistogram(SMALLEST_US, LARGEST_US, DIGITS)

    @classmethod
    def of(cls, nanoseconds: Iterable[int]) -> "Histogram":
        histogram = cls()
        histogram.record(nanoseconds)
        return histogram

    def record(self, nanoseconds: Iterable[int]) -> None:
        """Add latencies in nanoseconds, rounded up to whole microseconds."""
        count = self._counts.record_value
        for value in nanoseconds:
            count(min(LARGEST_US, max(SMALLEST_US, -(-value // 1000))))

    def add(self, other: "Histogram") -> None:
        self._counts.add(other._counts)

    def __len__(self) -> int:
        return int(self._counts.get_total_count())

    def percentile(self, percent: float) -> float:
        """Latency in milliseconds that `percent` of the latencies do not exceed; 0 if there are none."""
        return int(self._counts.get_value_at_percentile(percent)) / 1000 if len(self) else 0.0

    @property
    def largest(self) -> float:
        """The largest latency in milliseconds; 0 if there are none."""
        return int(self._counts.get_max_value()) / 1000 if len(self) else 0.0

    def encoded(self) -> str:
        """Return the whole distribution in HdrHistogram's portable text format."""
        return bytes(self._counts.encode()).decode("ascii")
