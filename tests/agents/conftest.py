"""What the tests of the directory share."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from node.config import Limit, Limits
from tests.agents.made_up import MadeUpAgents

MANY = Limit(100_000, 60)


CALLING = pytest.mark.settings(
    callback_allow_private=True, limits=Limits(callback=Limit(0, 60), agent=MANY, search=MANY)
)
"""For tests whose node may call loopback, as often as it likes."""


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have workers look everywhere all the time: tests change the times in Redis behind their back."""
    monkeypatch.setattr("node.agents.checks.POLL_SECONDS", 0.1)


@pytest_asyncio.fixture
async def made_up() -> AsyncIterator[MadeUpAgents]:
    """Agents that are made up."""
    async with MadeUpAgents() as agents:
        yield agents
