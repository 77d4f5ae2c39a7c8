"""Background tasks that fail are reported and restarted."""

import asyncio
from functools import partial

import pytest
import structlog.testing

from node.common import background, counters
from node.common.background import Background, CoroutineFunction, report_every
from tests.support.servers import PATIENCE


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "FIRST_PAUSE", 0.001)


async def fails() -> None:
    raise ValueError("what it read was not what it expected")


async def waits_for_what_is_cancelled() -> None:
    other = asyncio.ensure_future(asyncio.Event().wait())
    other.cancel()
    await other


@pytest.mark.parametrize(
    ("fail", "failure"), [(fails, ValueError), (waits_for_what_is_cancelled, asyncio.CancelledError)]
)
async def test_a_task_that_fails_is_logged_counted_and_started_again(
    fail: CoroutineFunction, failure: type[BaseException]
) -> None:
    counters.RESTARTS.clear()
    runs, well = 0, asyncio.Event()

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs < 3:
            await fail()
        well.set()

    tasks = Background()
    with structlog.testing.capture_logs() as lines:
        tasks.start("reader", work)
        # Present from the beginning, so that a monitor sees the first failure as an increase.
        assert counters.RESTARTS == {"reader": 0}
        await asyncio.wait_for(well.wait(), PATIENCE)
    await tasks.close()
    assert runs == 3
    assert counters.RESTARTS == {"reader": 2}
    assert [(line["event"], line["task"]) for line in lines] == [("background task failed", "reader")] * 2
    assert all(isinstance(line["exc_info"], failure) for line in lines)


@pytest.mark.parametrize(
    ("longest", "expected"),
    [
        pytest.param(0.5, [0.1, 0.2, 0.4, 0.5, 0.5], id="it fails at once"),
        pytest.param(0.0, [0.1] * 5, id="it ran for longer than the longest pause"),
    ],
)
async def test_a_task_that_goes_on_failing_is_started_again_after_longer_and_longer_pauses(
    monkeypatch: pytest.MonkeyPatch, longest: float, expected: list[float]
) -> None:
    monkeypatch.setattr(background, "FIRST_PAUSE", 0.1)
    monkeypatch.setattr(background, "MAX_PAUSE", longest)
    pauses: list[float] = []
    stop = asyncio.Event()

    async def pause(_: asyncio.Event, seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == len(expected):
            stop.set()

    monkeypatch.setattr(background, "sleep_unless_stopped", pause)
    await asyncio.wait_for(Background(stop).start("failing", fails), PATIENCE)
    assert pauses == expected


async def test_a_task_that_fails_while_the_process_stops_is_not_started_again() -> None:
    stop, runs = asyncio.Event(), 0

    async def work() -> None:
        nonlocal runs
        runs += 1
        stop.set()
        await fails()

    await asyncio.wait_for(Background(stop).start("failing", work), PATIENCE)
    assert runs == 1


async def test_closing_lets_a_task_clean_up() -> None:
    began, cleaned = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(10):
                await asyncio.sleep(0)
            cleaned.set()

    tasks = Background()
    tasks.start("writer", work)
    await began.wait()
    await tasks.close()
    assert cleaned.is_set()


async def test_closing_ends_a_task_that_is_about_to_be_started_again() -> None:
    failed = asyncio.Event()

    async def work() -> None:
        failed.set()
        raise OSError("gone")

    tasks = Background()
    tasks.start("failing", work)
    await failed.wait()
    await asyncio.wait_for(tasks.close(), PATIENCE)


async def test_what_is_reported_now_and_then_is_reported_once_more_at_the_end() -> None:
    reported, counted = list[int](), 0

    async def report() -> None:
        reported.append(counted)

    tasks = Background()
    tasks.start("report", partial(report_every, 60, report))
    await asyncio.sleep(0)
    counted = 1
    await tasks.close()
    assert reported == [1]


async def test_what_is_reported_now_and_then_is_reported_again_and_again() -> None:
    reports, enough = 0, asyncio.Event()

    async def report() -> None:
        nonlocal reports
        reports += 1
        if reports == 3:
            enough.set()

    tasks = Background()
    tasks.start("report", partial(report_every, 0, report))
    await asyncio.wait_for(enough.wait(), PATIENCE)
    await tasks.close()
