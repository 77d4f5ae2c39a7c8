"""A difference of clocks is reported, and so are its end and a clock that was set."""

import asyncio
import time
from collections.abc import Sequence
from unittest.mock import AsyncMock, Mock

import pytest
from structlog.testing import CapturingLogger

from node.store import clock
from tests.store.conftest import Opener
from tests.support.servers import RedisServer, eventually


@pytest.mark.parametrize(
    ("theirs", "ahead"),
    [([1000], 0), ([1007], 0), ([1010], 0), ([1014], 4), ([997], -3), ([1005, 1014, 990], -10), ([1012, 1015, 999], 5)],
)
async def test_a_late_answer_is_no_difference_of_clocks(
    monkeypatch: pytest.MonkeyPatch, theirs: Sequence[int], ahead: int
) -> None:
    """The answer came ten seconds after the question. Of several primaries, the one that differs most counts."""
    replies = [[str(each).encode(), b"0"] for each in theirs]
    monkeypatch.setattr(clock, "time", Mock(time=Mock(side_effect=[1000.0, 1010.0])))
    assert await clock.skew(Mock(everywhere=AsyncMock(return_value=replies))) == ahead


async def test_clocks_that_differ_are_told_of_that_one_was_set_and_that_they_agree_again(
    redis_server: RedisServer, open_store: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, ahead = CapturingLogger(), 0.0

    def shown() -> float:
        return time.monotonic() - began_at + began - ahead

    began, began_at = time.time(), time.monotonic()
    monkeypatch.setattr(clock, "log", log)
    monkeypatch.setattr(clock, "READ_SECONDS", 0.01)
    monkeypatch.setattr("node.store.clock.time.time", shown)
    store = await open_store(redis_server.url)
    stop = asyncio.Event()
    assert abs(await clock.skew(store)) < clock.SUSPECT_SECONDS
    watching = asyncio.create_task(clock.watch(store, stop))
    ahead = 30.0
    await eventually(lambda: bool(log.calls))
    ahead = 0.0
    await eventually(lambda: log.calls[-1].method_name == "info")
    stop.set()
    await watching
    warned = log.calls[0]
    assert (warned.method_name, 25 < warned.kwargs["redis_ahead_s"] < 35) == ("warning", True)
    [was_set] = [call for call in log.calls if "ahead_s" in call.kwargs]
    assert (was_set.method_name, 25 < was_set.kwargs["ahead_s"] < 35) == ("warning", True)
