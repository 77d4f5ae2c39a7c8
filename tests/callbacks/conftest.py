"""Fixtures that the callback tests share."""

import pytest


@pytest.fixture(autouse=True)
def look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make workers read every partition all the time, because tests change times in Redis directly."""
    monkeypatch.setattr("node.callbacks.queue.POLL_SECONDS", 0.2)
