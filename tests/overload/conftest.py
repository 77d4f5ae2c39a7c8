"""An intake for each test."""

from collections.abc import AsyncGenerator

import pytest

from tests.overload.door import Door
from tests.support.servers import eventually


@pytest.fixture
async def door() -> AsyncGenerator[Door]:
    """An intake whose requests all end with the test."""
    opened = Door()
    yield opened
    opened.end.set()
    opened.store = (0, 0)
    await eventually(lambda: all(watcher.task is not None and watcher.task.done() for watcher in opened.begun))
