"""Two tasks, one of which is awaited: neither is left running, whatever happens meanwhile."""

import asyncio

import pytest

from node.common.cancellation import ended_before


class Job:
    """A task that runs until it is told to end, and takes some time to clean up."""

    def __init__(self) -> None:
        self.cleaning, self.go_on, self.is_clean = asyncio.Event(), asyncio.Event(), False
        self.task: asyncio.Future[str] = asyncio.ensure_future(self._run())

    async def _run(self) -> str:
        try:
            await asyncio.Event().wait()
            return "done"
        finally:
            self.cleaning.set()
            try:
                await self.go_on.wait()
            finally:
                self.is_clean = True


async def test_what_is_given_up_has_cleaned_up_before_others_go_on() -> None:
    job = Job()
    waiting = asyncio.create_task(ended_before(job.task, asyncio.ensure_future(asyncio.sleep(0))))
    await job.cleaning.wait()
    assert not waiting.done()
    job.go_on.set()
    assert await waiting is False
    assert job.is_clean
    assert job.task.cancelled()


async def test_what_ends_by_itself_ends_the_other() -> None:
    job = Job()
    job.go_on.set()
    work = asyncio.ensure_future(asyncio.sleep(0, "the result"))
    assert await ended_before(work, job.task)
    assert work.result() == "the result"
    assert job.is_clean


async def test_who_is_cancelled_leaves_neither_behind() -> None:
    one, other = Job(), Job()
    waiting = asyncio.create_task(ended_before(one.task, other.task))
    await asyncio.sleep(0)
    waiting.cancel()
    await one.cleaning.wait()
    assert not waiting.done()
    waiting.cancel()  # cancelled again while both clean up
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert one.is_clean
    assert other.is_clean


async def test_what_either_raises_is_left_to_who_asks_for_it() -> None:
    async def fail() -> None:
        raise OSError("gone")

    work, other = asyncio.ensure_future(fail()), asyncio.ensure_future(fail())
    assert await ended_before(work, other)
    assert isinstance(work.exception(), OSError)
