"""Due times and the timer that keeps them."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.schedule import MOST_REQUESTS, MOST_SECONDS, SECOND, SHORTEST_TICK_NS, Schedule, Ticker, now
from tests.support.servers import PATIENCE


def test_request_i_is_due_i_intervals_after_the_start() -> None:
    schedule = Schedule(2000, 1)
    assert schedule.count == 2000
    assert [schedule.due(index) for index in (0, 1, 2, 1999)] == [0, 500_000, 1_000_000, 999_500_000]


def test_due_times_do_not_drift_at_a_rate_that_divides_nothing() -> None:
    assert Schedule(3, 1000).due(3000) == 1000 * SECOND


@given(rate=st.floats(0.5, 50_000), seconds=st.floats(0.1, 5), elapsed=st.integers(-SECOND, 10 * SECOND))
def test_exactly_the_requests_whose_time_has_come_are_due(rate: float, seconds: float, elapsed: int) -> None:
    schedule = Schedule(rate, seconds)
    due = schedule.due_by(elapsed)
    assert 0 <= due <= schedule.count
    assert due == 0 or schedule.due(due - 1) <= elapsed
    assert due == schedule.count or schedule.due(due) > elapsed


@pytest.mark.parametrize(
    ("rate", "seconds"), [(0, 1), (-1, 1), (float("nan"), 1), (1, 0), (1, MOST_SECONDS + 1), (MOST_REQUESTS, 2)]
)
def test_a_schedule_without_bounds_is_refused(rate: float, seconds: float) -> None:
    with pytest.raises(ValueError, match="at most"):
        Schedule(rate, seconds)


def test_the_generator_wakes_for_each_request_but_not_more_often_than_it_can() -> None:
    assert Schedule(1000, 1).tick == SECOND // 1000
    assert Schedule(100_000, 1).tick == SHORTEST_TICK_NS


async def test_the_ticker_waits_for_its_first_moment_and_then_goes_on() -> None:
    first = now() + SECOND // 100
    ticks: list[int] = []
    done = asyncio.Event()

    def tick() -> None:
        ticks.append(now())
        if len(ticks) == 3:
            done.set()

    with Ticker(first, SECOND // 1000, tick):
        await asyncio.wait_for(done.wait(), PATIENCE)
    assert all(at >= first for at in ticks)
