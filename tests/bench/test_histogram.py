"""How latencies are counted and reported."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.histogram import Histogram

MS = 1_000_000


def test_percentiles_are_in_milliseconds() -> None:
    histogram = Histogram.of(n * MS for n in range(1, 101))
    assert len(histogram) == 100
    assert histogram.percentile(50) == pytest.approx(50, rel=0.001)
    assert histogram.percentile(99) == pytest.approx(99, rel=0.001)
    assert histogram.largest == pytest.approx(100, rel=0.001)


@given(st.lists(st.integers(1_000, 60_000 * MS), min_size=1, max_size=200))
def test_three_digits_of_every_latency_are_kept(latencies: list[int]) -> None:
    exact = sorted(latencies)[(len(latencies) - 1) // 2] / MS
    told = Histogram.of(latencies).percentile(50 if len(latencies) > 1 else 100)
    assert told == pytest.approx(exact, rel=0.001, abs=0.001)


def test_histograms_add_up() -> None:
    together = Histogram()
    together.add(Histogram.of([MS] * 99))
    together.add(Histogram.of([500 * MS]))
    assert len(together) == 100
    assert together.percentile(50) == pytest.approx(1, rel=0.001)
    assert together.largest == pytest.approx(500, rel=0.001)


def test_what_is_beyond_the_range_counts_at_its_end() -> None:
    assert Histogram.of([3_600_000 * MS]).largest == pytest.approx(60_000, rel=0.001)
    assert Histogram.of([0]).percentile(50) == 0.001


def test_nothing_recorded_is_told_as_zero() -> None:
    assert (Histogram().percentile(99), Histogram().largest) == (0, 0)


def test_the_encoded_form_is_hdrhistograms_own() -> None:
    assert Histogram.of([MS]).encoded().startswith("HISTFAAA")
