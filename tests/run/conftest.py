"""A node with stand-in processes for the supervisor's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.nodes import SMALL, NodeProcess


@pytest.fixture
def small(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "data", SMALL) as node:
        yield node
