"""Deadlines of reads: one timer, and no task that is told the wrong thing."""

import asyncio
from time import monotonic

import pytest

from node.web.deadline import MIN_ENDED, Deadlines
from tests.support.servers import eventually


async def test_what_comes_in_time_is_given() -> None:
    deadlines = Deadlines()
    assert await deadlines.by(monotonic() + 60, asyncio.sleep(0, "a body")) == "a body"


async def test_what_does_not_come_ends_with_a_timeout_and_leaves_the_task_usable() -> None:
    deadlines = Deadlines()
    with pytest.raises(TimeoutError):
        await deadlines.by(monotonic(), asyncio.Event().wait())
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()
    assert await deadlines.by(monotonic() + 60, asyncio.sleep(0, "the next")) == "the next"


async def test_each_of_many_has_its_own_deadline() -> None:
    deadlines = Deadlines()
    late = [asyncio.create_task(deadlines.by(monotonic(), asyncio.Event().wait())) for _ in range(5 * MIN_ENDED)]
    opened = asyncio.Event()
    patient = asyncio.create_task(deadlines.by(monotonic() + 60, opened.wait()))
    outcomes = await asyncio.gather(*late, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [TimeoutError] * 5 * MIN_ENDED
    assert not patient.done()
    opened.set()
    assert await patient


async def test_of_a_crowd_a_few_end_in_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.web.deadline.NEXT_CHECK_SECONDS", 3600)  # so that there is no further look
    deadlines = Deadlines()
    late = [asyncio.create_task(deadlines.by(monotonic(), asyncio.Event().wait())) for _ in range(5 * MIN_ENDED)]
    # The first to wait has a look of its own.
    await eventually(lambda: sum(task.done() for task in late) > MIN_ENDED)
    assert [task.done() for task in late] == [True] * (1 + MIN_ENDED) + [False] * (4 * MIN_ENDED - 1)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)


async def test_a_task_that_somebody_else_cancels_is_cancelled() -> None:
    deadlines = Deadlines()
    task = asyncio.create_task(deadlines.by(monotonic() + 60, asyncio.Event().wait()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancelled_and_overdue_at_once_is_cancelled() -> None:
    deadlines = Deadlines()

    async def reads() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()  # before the look, which happens as soon as the wait begins
        await deadlines.by(monotonic(), asyncio.Event().wait())

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(reads())
