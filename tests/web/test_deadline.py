"""Deadlines of reads: one timer for all, and no task is told a wrong outcome."""

import asyncio
from time import monotonic

import pytest

from node.web.deadline import MIN_ENDED, Deadlines
from tests.support.servers import eventually


async def test_a_result_that_comes_in_time_is_returned() -> None:
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


async def test_one_check_ends_only_a_few_of_many_overdue_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.web.deadline.NEXT_CHECK_SECONDS", 3600)  # so that no further check is made
    deadlines = Deadlines()
    late = [asyncio.create_task(deadlines.by(monotonic(), asyncio.Event().wait())) for _ in range(5 * MIN_ENDED)]
    await eventually(lambda: any(task.done() for task in late))
    assert [task.done() for task in late] == [True] * MIN_ENDED + [False] * (4 * MIN_ENDED)
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


async def test_cancelled_and_overdue_at_once_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.web.deadline.CHECK_SECONDS", 0)

    async def reads() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)  # in the turn of the loop in which the deadline is checked
        await Deadlines().by(monotonic(), asyncio.Event().wait())

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(reads())


async def test_a_result_that_comes_although_it_is_overdue_is_returned_and_leaves_the_task_usable() -> None:
    deadlines, task = Deadlines(), asyncio.current_task()
    assert task is not None

    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "a body"
        return ""

    assert await deadlines.by(monotonic(), stubborn()) == "a body"
    assert not task.cancelling()
    with pytest.raises(TimeoutError):
        await deadlines.by(monotonic(), asyncio.Event().wait())


async def test_a_result_that_is_there_at_once_is_returned_however_late_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.web.deadline.CHECK_SECONDS", 0)

    async def ready() -> str:
        return "a body"

    assert await Deadlines().by(monotonic() - 60, ready()) == "a body"
    await asyncio.sleep(0.001)  # a late cancellation of the task would happen here


async def test_a_deadline_counts_after_a_time_without_any_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.web.deadline.CHECK_SECONDS", 0)
    deadlines = Deadlines()
    for _ in range(2):
        late = asyncio.create_task(deadlines.by(monotonic(), asyncio.Event().wait()))
        await eventually(late.done)
        assert isinstance(late.exception(), TimeoutError)
        await asyncio.sleep(0.001)  # the last check finds no deadline, and no further check is planned


async def test_who_sent_in_time_while_the_process_stood_still_is_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.001
        return now

    monkeypatch.setattr("node.web.deadline.CHECK_SECONDS", 0.005)
    monkeypatch.setattr("node.web.deadline.monotonic", clock)
    deadlines = Deadlines()
    held = asyncio.create_task(deadlines.by(clock() + 0.2, asyncio.Event().wait()))
    await asyncio.sleep(0)
    now += 60
    began = now
    with pytest.raises(TimeoutError):
        await held
    assert now - began > 0.1
