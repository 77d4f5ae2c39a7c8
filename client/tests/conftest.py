"""One node for the tests of the client, but for those that look for agents in its directory."""

import signal
from collections.abc import Generator

import pytest
from tests.support import authorities
from tests.support.client_node import begin
from tests.support.nodes import NodeProcess, with_lines_of_nodes

# A script's shell lets what it begins in the background ignore SIGINT, and so would all that a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

authorities.leave_out()

pytest_runtest_makereport = with_lines_of_nodes


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[NodeProcess]:
    """A node that is ready."""
    with NodeProcess(tmp_path_factory.mktemp("node")) as node:
        yield begin(node).ready()
