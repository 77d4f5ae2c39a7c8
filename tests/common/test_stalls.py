"""A process notices when it was held up, and mistakes nothing else for that."""

import asyncio

import pytest

from node.common import stalls
from node.common.stalls import HELD_UP_SECONDS, StallDetector
from tests.support.servers import eventually


async def test_only_a_process_that_was_held_up_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stalls, "LOOK_SECONDS", 0.001)
    looks, missed = 0, 0.0

    def clock() -> float:
        nonlocal looks
        looks += 1
        return looks / 1000 + missed

    stop, watched = asyncio.Event(), StallDetector(clock)
    watching = asyncio.create_task(watched.watch(stop))
    await eventually(lambda: looks > 10)
    assert not watched.was_held_up(since=0)
    missed = HELD_UP_SECONDS + 1
    await eventually(lambda: watched.was_held_up(since=0))
    seen = looks
    await eventually(lambda: looks > seen + 10)
    assert not watched.was_held_up(since=clock())
    stop.set()
    await watching
