"""What tests of a process that several clients use share."""

import math

import pytest

from node.web import turn


@pytest.fixture
def other_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others of a test have just been here, however slow the machine is."""
    monkeypatch.setattr(turn, "SHARED_SECONDS", math.inf)
