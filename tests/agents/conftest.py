"""Fixtures that the directory's tests share."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from node.config import Limit, Limits
from tests.agents.made_up import MadeUpAgents

MANY = Limit(100_000, 60)


CALLING = pytest.mark.settings(
    callback_allow_private=True, limits=Limits(callback=Limit(0, 60), agent=MANY, search=MANY)
)
"""For tests whose node may call loopback addresses, without a limit."""


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make workers look for due entries all the time, because tests change times in Redis directly."""
    monkeypatch.setattr("node.agents.checks.POLL_SECONDS", 0.1)


@pytest_asyncio.fixture
async def made_up() -> AsyncIterator[MadeUpAgents]:
    """A server of made-up agents."""
    async with MadeUpAgents() as agents:
        yield agents
