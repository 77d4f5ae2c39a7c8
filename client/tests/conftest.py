"""A node that all tests of the client share, except those that search its directory for agents."""

import signal
from collections.abc import Generator

import pytest
from tests.support import authorities
from tests.support.client_node import begin
from tests.support.nodes import NodeProcess, with_lines_of_nodes

# A non-interactive shell starts background commands with SIGINT ignored. Processes that a test interrupts would inherit
# that.
signal.signal(signal.SIGINT, signal.default_int_handler)

authorities.leave_out()

pytest_runtest_makereport = with_lines_of_nodes


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[NodeProcess]:
    """A running node that is ready."""
    with NodeProcess(tmp_path_factory.mktemp("node")) as node:
        yield begin(node).ready()
