"""What the tests of callbacks share."""

import pytest


@pytest.fixture(autouse=True)
def look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers look everywhere all the time: tests move the times in Redis behind their back."""
    monkeypatch.setattr("node.callbacks.queue.POLL_SECONDS", 0.2)
