"""A node for third-party clients, and for clients generated from the node's description of itself."""

from collections.abc import Iterator

import pytest

from tests.support.nodes import NodeProcess
from tests.support.two_processes import two_processes


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node without limits, since all clients share one address."""
    with two_processes(tmp_path_factory.mktemp("node")) as node:
        yield node
