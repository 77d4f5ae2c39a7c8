"""A web process of the node, started as by an operator, for the official clients to call."""

import sys
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec

import httpx
import pytest
import pytest_asyncio

from tests.support.nodes import NodeProcess
from tests.support.servers import PATIENCE, RedisServer, until

if find_spec("a2a") is None:
    raise ModuleNotFoundError("the official A2A client is not installed: run `make clients`")


def web(tmp_path_factory: pytest.TempPathFactory, *module: str) -> Iterator[NodeProcess]:
    """Run a web process with its own Redis. `module` is the Python module to run, and its arguments."""
    folder = tmp_path_factory.mktemp("node")
    command = (sys.executable, "-m", *module)
    with RedisServer(folder / "redis") as redis, NodeProcess(folder / "data", command) as node:
        node.start(RELAY_REDIS_URL=redis.url, RELAY_WORKERS="1", RELAY_LIMIT_MESSAGE="0")
        until(node.answers, f"{node.url} answers: {node.lines}{node.words()}")
        yield node


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """The node without hooks."""
    yield from web(tmp_path_factory, "node", "web")


@pytest.fixture(scope="module")
def hooked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node with the hooks that the protocol's test kit expects."""
    yield from web(tmp_path_factory, "tests.conformance.a2a.hooked_node")


@pytest_asyncio.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """HTTP connections for the official Python client."""
    async with httpx.AsyncClient(timeout=PATIENCE) as client:
        yield client
