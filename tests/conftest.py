"""What every test may use: one real Redis a session, emptied for each test, and a node on it.

With TEST_STORE=cluster in the environment that Redis is a cluster (`make test-cluster`).
"""

import asyncio
import gc
import math
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import pytest_asyncio
import uvloop

from node.observe.log import configure
from node.web.throughput import Throughput
from tests.support import authorities
from tests.support.fake_store import Clock
from tests.support.keyspace import keys_without_end
from tests.support.node_under_test import NodeUnderTest, running, settings_for
from tests.support.nodes import with_lines_of_nodes
from tests.support.own_process import kept_as_it_was
from tests.support.servers import PATIENCE, Cluster, RedisServer

# Tests are about what is computed; how long that takes a busy machine is no reason to fail one.
hypothesis.settings.register_profile("node", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("node")

# A script's shell lets what it begins in the background ignore SIGINT, and so would all that a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

authorities.leave_out()

# Until all tests are found: hardly anything is let go of meanwhile, and to look for it takes a fifth of the time.
gc.disable()

pytest_runtest_makereport = with_lines_of_nodes

ON_CLUSTER = os.environ.get("TEST_STORE") == "cluster"


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The event loop of a node's processes: its clock counts milliseconds, and its errors have words of their own."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def logs() -> None:
    """What the node logs in tests is what it logs in production: one line of JSON, whatever the test before set up."""
    configure("warning")


@pytest.fixture
def without_collector() -> Iterator[None]:
    """What a test lets go of is freed at once or stays, as in a node, where the collector runs rarely."""
    gc.disable()
    yield
    gc.enable()


def pytest_collection_finish() -> None:
    """What tests import is frozen once."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def collectable() -> Iterator[None]:
    """Nodes inside this process freeze nothing: there are hundreds of them, and what one froze would stay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("node.common.process.freeze", lambda: None)
        yield


@pytest.fixture(scope="session")
def shared_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer | Cluster]:
    """A server for all tests that do not stop, fill or break it."""
    folder = tmp_path_factory.mktemp("redis")
    with Cluster(folder) if ON_CLUSTER else RedisServer(folder) as server:
        yield server


@pytest.fixture
def empty_redis(shared_redis: RedisServer | Cluster) -> Iterator[RedisServer | Cluster]:
    """The shared server without data. A test fails if it leaves a key that would stay for ever and is not meant to."""
    shared_redis.do("FLUSHALL")
    shared_redis.do("SCRIPT", "FLUSH")
    yield shared_redis
    assert keys_without_end(shared_redis) == []


@pytest.fixture
def overrides(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Settings of the node under test that differ from the defaults: those of the nearest mark `settings`, of the test,
    its class or its module. A module overrides this where settings depend on a fixture."""
    mark = request.node.get_closest_marker("settings")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return dict(mark.kwargs) if mark else {}  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


@pytest.fixture
def no_settings(tmp_path: Path) -> Iterator[None]:
    """Only what a test sets; the data directory is its own. Nothing of it is left for other tests."""
    with kept_as_it_was():
        for name in [name for name in os.environ if name.startswith("RELAY_")]:
            del os.environ[name]
        os.environ["RELAY_DATA_DIR"] = str(tmp_path / "data")
        yield


@pytest.fixture
def no_refill(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a client may move does not grow while it is used up: on a busy machine it would at any moment.

    Nor is a client slowed down before: its pauses would not end.
    """
    monkeypatch.setattr("node.run.web.Throughput", partial(Throughput, clock=lambda: 1000.0))
    monkeypatch.setattr("node.web.throughput.UNPACED_SECONDS", math.inf)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers of workers to a search are waited for however busy the machine is."""
    monkeypatch.setattr("node.search.rpc.client.ANSWER_SECONDS", PATIENCE)


@pytest.fixture
def clock() -> Iterator[Clock]:
    """The time of a FakeStore: it moves only when it is told to."""
    with Clock.installed() as clock:
        yield clock


@pytest_asyncio.fixture
async def node(empty_redis: RedisServer | Cluster, overrides: dict[str, Any]) -> AsyncIterator[NodeUnderTest]:
    """A node with the default limits, unless the module says otherwise."""
    async with running(settings_for(empty_redis.url, **overrides)) as node:
        yield node
