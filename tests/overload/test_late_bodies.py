"""Requests with late bodies: Granian's thread adds them, and the event loop finds them."""

import gc
from functools import partial

import pytest

from node.overload.intake import BODY_SECONDS
from tests.overload.door import Door
from tests.support.servers import eventually


async def test_late_bodies_are_found_while_others_come(door: Door, request: pytest.FixtureRequest) -> None:
    """Granian's thread may add requests while the event loop iterates over them, because the collector lets that thread
    run.
    """
    look = door.intake._queue_those_without_body  # pyright: ignore[reportPrivateUsage]
    slow = door.come(9, body_is_late=True)
    door.now += BODY_SECONDS

    def collects(_phase: str, _info: object) -> None:
        door.come(body_is_late=True)

    request.addfinalizer(partial(gc.set_threshold, *gc.get_threshold()))
    gc.collect()  # clears the free list of tuples, so that creating one can run the collector
    gc.callbacks.append(collects)
    gc.set_threshold(1)
    try:
        look(door.now)
    finally:
        gc.callbacks.remove(collects)
    await eventually(lambda: door.begun == slow)
