"""Two web processes of the node for the official MCP clients to call."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.conformance.javascript import SCRIPTS
from tests.support.nodes import NodeProcess
from tests.support.two_processes import two_processes

if find_spec("mcp") is None or not (SCRIPTS / "node_modules" / "@modelcontextprotocol").exists():
    raise ModuleNotFoundError("the official MCP clients are not installed: run `make clients`")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node without limits: all clients share one address."""
    with two_processes(tmp_path_factory.mktemp("node")) as node:
        yield node
