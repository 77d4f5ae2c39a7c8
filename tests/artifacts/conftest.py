"""The embedded store behind Granian, for the tests of both directions."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.artifacts.blobs import Node, served


@pytest.fixture
async def node(tmp_path: Path) -> AsyncGenerator[Node]:
    async with served(Node(tmp_path / "blobs")) as running:
        yield running
