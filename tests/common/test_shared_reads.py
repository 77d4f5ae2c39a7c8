"""Reads shared by several callers: each caller gets a read that began after it asked, and one read is under way at a
time.
"""

import asyncio

import pytest

from node.common.shared_reads import SharedReads
from tests.support.servers import PATIENCE


class Source:
    """Counts its reads. A test decides when each of them ends."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._ends: list[asyncio.Future[None]] = []

    async def read(self, key: str) -> str:
        self.begun.append(key)
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ends.append(end)
        await end
        return f"{key} {len(self.begun)}"

    async def until(self, count: int) -> None:
        """Return once this many reads have begun."""
        while len(self.begun) < count:  # noqa: ASYNC110  # each turn of the event loop may be the one
            await asyncio.sleep(0)

    def end(self, number: int, failure: Exception | None = None) -> None:
        if failure:
            self._ends[number].set_exception(failure)
        else:
            self._ends[number].set_result(None)

    def cancel(self, number: int) -> None:
        self._ends[number].cancel()


async def test_who_comes_in_one_turn_shares_a_read() -> None:
    source = Source()
    reads = SharedReads(source.read)
    asked = [reads.get("a"), reads.get("a"), reads.get("b")]
    await source.until(2)
    source.end(0)
    source.end(1)
    assert await asyncio.gather(*asked) == ["a 2", "a 2", "b 2"]
    assert source.begun == ["a", "b"]


async def test_who_comes_during_a_read_gets_the_next_one() -> None:
    source = Source()
    reads = SharedReads(source.read)
    first = reads.get("a")
    await source.until(1)
    late = [reads.get("a"), reads.get("a")]
    source.end(0)
    assert await first == "a 1"
    await source.until(2)
    assert not any(each.done() for each in late)
    source.end(1)
    assert await asyncio.gather(*late) == ["a 2", "a 2"]
    again = reads.get("a")
    await source.until(3)
    source.end(2)
    assert await again == "a 3"  # nothing is kept


async def test_a_failure_is_that_of_its_callers_alone() -> None:
    source = Source()
    reads = SharedReads(source.read)
    first = [reads.get("a"), reads.get("a")]
    await source.until(1)
    late = reads.get("a")
    source.end(0, OSError("gone"))
    for each in first:
        with pytest.raises(OSError, match="gone"):
            await each
    await source.until(2)
    source.end(1)
    assert await late == "a 2"


async def test_a_caller_that_is_gone_takes_nothing_from_the_others() -> None:
    source = Source()
    reads = SharedReads(source.read)
    gone, stays = reads.get("a"), reads.get("a")
    await source.until(1)
    gone.cancel()
    source.end(0)
    assert await stays == "a 1"


async def test_a_read_that_is_cancelled_keeps_nobody_waiting_for_ever() -> None:
    source = Source()
    reads = SharedReads(source.read)
    first = reads.get("a")
    await source.until(1)
    late = reads.get("a")
    source.cancel(0)
    for each in (first, late):
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(each, PATIENCE)
    again = reads.get("a")
    await source.until(2)
    source.end(1)
    assert await again == "a 2"
