"""Fixtures for tests of a process that several clients use."""

import math

import pytest

from node.web import turn


@pytest.fixture
def other_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the other clients of a test count as present, however slow the machine is."""
    monkeypatch.setattr(turn, "SHARED_SECONDS", math.inf)
