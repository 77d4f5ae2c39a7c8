"""Fixtures for every test: one real Redis per session, emptied before each test, and a node on it.

With TEST_STORE=cluster in the environment, that Redis is a cluster (`make test-cluster`).
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

from node.common.cohort import COHORT
from node.observe.log import configure
from node.web.throughput import Throughput
from tests.support import authorities
from tests.support.fake_store import Clock
from tests.support.keyspace import keys_without_end
from tests.support.node_under_test import NodeUnderTest, running, settings_for
from tests.support.nodes import with_lines_of_nodes
from tests.support.own_process import kept_as_it_was
from tests.support.servers import PATIENCE, Cluster, RedisServer

# Tests check what is computed, so slowness on a busy machine must not fail one.
hypothesis.settings.register_profile("node", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("node")

# A shell script starts background processes with SIGINT ignored, and the processes that a test interrupts would inherit
# that.
signal.signal(signal.SIGINT, signal.default_int_handler)

authorities.leave_out()

# Off until all tests are collected: collecting frees hardly any objects, and the collector would take a fifth of the
# time.
gc.disable()

pytest_runtest_makereport = with_lines_of_nodes

ON_CLUSTER = os.environ.get("TEST_STORE") == "cluster"


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return the event loop of a node's processes: its clock counts whole milliseconds, and its error texts differ from
    asyncio's.
    """
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def logs() -> None:
    """Log as in production, one line of JSON per event, whatever the previous test configured."""
    configure("warning")


@pytest.fixture(autouse=True)
def alone() -> None:
    """Begin each test out of step, whatever the previous test began."""
    COHORT.begin(0)


@pytest.fixture
def without_collector() -> Iterator[None]:
    """Disable the cyclic collector, which runs rarely in a node: an object that a test drops is freed at once or not at
    all.
    """
    gc.disable()
    yield
    gc.enable()


def pytest_collection_finish() -> None:
    """Freeze the objects created by imports once, after collection."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def collectable() -> Iterator[None]:
    """Keep the nodes in this process from freezing objects: there are hundreds of nodes, and frozen objects are never
    freed.
    """
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
    """The shared server without data. The test fails if it leaves a key without a TTL that is not meant to last."""
    shared_redis.do("FLUSHALL")
    shared_redis.do("SCRIPT", "FLUSH")
    yield shared_redis
    assert keys_without_end(shared_redis) == []


@pytest.fixture
def overrides(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Settings of the node under test that differ from the defaults: those of the nearest `settings` mark on the test,
    its class or its module. A module overrides this fixture where settings depend on another fixture.
    """
    mark = request.node.get_closest_marker("settings")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return dict(mark.kwargs) if mark else {}  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


@pytest.fixture
def no_settings(tmp_path: Path) -> Iterator[None]:
    """Remove all RELAY_ variables, and set a data directory of the test's own. The environment is restored
    afterwards.
    """
    with kept_as_it_was():
        for name in [name for name in os.environ if name.startswith("RELAY_")]:
            del os.environ[name]
        os.environ["RELAY_DATA_DIR"] = str(tmp_path / "data")
        yield


@pytest.fixture
def no_refill(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the refill of a client's throughput allowance while a test uses it up: on a busy machine it could refill at
    any moment.

    The pauses that slow a client down before the limit are off as well, since with a stopped clock they would not end.
    """
    monkeypatch.setattr("node.run.web.Throughput", partial(Throughput, clock=lambda: 1000.0))
    monkeypatch.setattr("node.web.throughput.UNPACED_SECONDS", math.inf)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for workers' answers to a search however busy the machine is."""
    monkeypatch.setattr("node.search.rpc.client.ANSWER_SECONDS", PATIENCE)


@pytest.fixture
def clock() -> Iterator[Clock]:
    """The clock of a FakeStore, which moves only when a test moves it."""
    with Clock.installed() as clock:
        yield clock


@pytest_asyncio.fixture
async def node(empty_redis: RedisServer | Cluster, overrides: dict[str, Any]) -> AsyncIterator[NodeUnderTest]:
    """A node with the default limits, unless `overrides` says otherwise."""
    async with running(settings_for(empty_redis.url, **overrides)) as node:
        yield node
