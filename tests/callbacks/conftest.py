"""What the tests of callbacks share."""

import pytest


@pytest.fixture(autouse=True)
def look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers read every partition all the time: tests change times in Redis behind their backs."""
    monkeypatch.setattr("node.callbacks.queue.POLL_SECONDS", 0.2)
