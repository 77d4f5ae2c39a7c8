"""One node for all tests of the client."""

from collections.abc import Generator

import pytest
from tests.support.client_node import begin
from tests.support.nodes import NodeProcess


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[NodeProcess]:
    """A node that is ready."""
    with NodeProcess(tmp_path_factory.mktemp("node")) as node:
        yield begin(node).ready()
