"""How the loops of a search worker end: at once when they are told to stop or are cancelled."""

import asyncio

import pytest

from node.search.worker_loop import unless


async def test_work_ends_by_itself_or_is_given_up() -> None:
    stop = asyncio.Event()
    assert await unless(stop, asyncio.sleep(0, "the result")) == "the result"
    working = asyncio.create_task(unless(stop, asyncio.Event().wait()))
    await asyncio.sleep(0)
    stop.set()
    assert await working is None


async def test_who_is_cancelled_while_its_work_is_given_up_is_cancelled() -> None:
    stop, cleaning = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await asyncio.Event().wait()

    working = asyncio.create_task(unless(stop, work()))
    await asyncio.sleep(0)
    stop.set()
    await cleaning.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
