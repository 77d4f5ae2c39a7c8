"""An index with more documents than a process may have concurrent calls to Redis."""

import pytest

from node.embedding.model import Model
from node.search.index_versions import IndexVersions
from node.search.passages import PASSAGE_CHARACTERS
from node.store.search_keys import BOARD_KEYS
from tests.search.searching import ANYTHING, searchable
from tests.support.node_under_test import until
from tests.support.servers import PATIENCE, RedisServer

CALLS = 40  # concurrent calls; the default is 4,096
THREADS = 48
BODY = "A sentence that says little. " * (PASSAGE_CHARACTERS // 20)  # two passages


async def fill(url: str) -> None:
    async with searchable(url) as board, board.worker():
        for number in range(THREADS):
            await board.post(f"Thread number {number}", BODY)
        await board.settled()


async def test_a_worker_takes_it_into_its_memory(
    search_redis: RedisServer, loaded_model: Model, patience: None
) -> None:
    """A worker that asked for all of it at once would be refused, and would ask again for ever."""
    await fill(search_redis.url)
    async with searchable(search_redis.url, max_in_flight=CALLS) as board, board.worker():

        async def found() -> bool:
            hits = await board.find("a sentence about nothing", ANYTHING, THREADS)
            return hits.mode == "both" and len(hits.hits) == THREADS

        await until(found, PATIENCE)


async def test_it_is_swept_rebuilt_and_its_old_vectors_are_removed(
    search_redis: RedisServer, loaded_model: Model, patience: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.search.indexing.reconcile.GRACE_SECONDS", 0.0)
    await fill(search_redis.url)
    async with searchable(search_redis.url, max_in_flight=CALLS) as board, board.worker():
        versions = IndexVersions(board.store, BOARD_KEYS)
        (old,) = await versions.names()
        await IndexVersions(board.store, BOARD_KEYS).reindex()

        async def forgotten() -> bool:
            await board.store.command("SPUBLISH", BOARD_KEYS.current, "")
            return old not in await versions.names()

        await until(forgotten, PATIENCE)
        assert len(await board.vectors()) == 2 * THREADS
        assert search_redis.do("KEYS", f"{BOARD_KEYS.vectors_prefix(old)}*") == []
