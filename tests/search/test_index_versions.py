"""An index of another kind is built beside the current one, and replaces it when it is complete."""

import asyncio
from types import SimpleNamespace

import pytest

from node.embedding.embedder import Embedder
from node.embedding.model import Model
from node.search.index_versions import FLAT_BELOW_PASSAGES, HNSW_FROM_PASSAGES, IndexVersion, IndexVersions
from node.search.indexing.reconcile import GRACE_SECONDS, Reconciler
from node.store.search_keys import BOARD_KEYS
from tests.search.conftest import WITH_ENGINE
from tests.search.searching import SearchableBoard
from tests.support.node_under_test import until

BREAD = ("Sourdough schedule", "The starter doubles in six hours. When should I mix the dough to bake at seven?")
LOAF = "at what time do I prepare the loaf for the oven"


async def live(board: SearchableBoard) -> IndexVersion:
    found = await IndexVersions(board.store, BOARD_KEYS).current()
    assert found is not None
    return found


async def switched(board: SearchableBoard, old: IndexVersion) -> IndexVersion:
    """Return the version that has replaced the old one."""

    async def other() -> bool:
        return await live(board) != old

    await until(other)
    return await live(board)


async def test_another_algorithm_is_built_without_embedding_anew(board: SearchableBoard, loaded_model: Model) -> None:
    thread = await board.post(*BREAD)
    async with board.worker(vector_index="flat"):
        await board.settled()
        flat = await live(board)
    before = await board.documents.command("HGET", BOARD_KEYS.vector(flat.name, thread, "0.0"), "vector")
    async with board.worker(vector_index="hnsw"):
        hnsw = await switched(board, flat)
        assert (flat.algorithm, hnsw.algorithm) == ("flat", "hnsw")
        assert await board.documents.command("HGET", BOARD_KEYS.vector(hnsw.name, thread, "0.0"), "vector") == before
        await board.found(LOAF, thread)
        await board.settled()


async def test_another_model_is_built_beside_the_one_in_use(board: SearchableBoard, loaded_model: Model) -> None:
    thread = await board.post(*BREAD)
    older = IndexVersion("0123456789ab", "another-model", 3, "flat", 0)
    versions = IndexVersions(board.store, BOARD_KEYS)
    await versions.use(older)
    async with board.worker():
        newer = await switched(board, older)
        assert newer.dimension == loaded_model.dimension
        await board.found(LOAF, thread)
        assert set(await versions.names()) == {older.name, newer.name}
        await board.settled()


async def test_vectors_of_the_first_release_are_taken_over_as_smaller_numbers(
    board: SearchableBoard, loaded_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def first_release(*_: object) -> str:
        return "float32"

    async def nothing_anew(_: object, texts: list[str]) -> list[bytes]:
        assert not texts
        return []

    thread = await board.post(*BREAD)
    with monkeypatch.context() as then:
        then.setattr(Reconciler, "_scalar", first_release)
        async with board.worker():
            await board.settled()
            large = await live(board)
    monkeypatch.setattr(Embedder, "passages", nothing_anew)
    async with board.worker():
        small = await switched(board, large)
        vectors = [BOARD_KEYS.vector(version.name, thread, "0.0") for version in (large, small)]
        sizes = [await board.documents.command("HSTRLEN", each, "vector") for each in vectors]
        assert sizes == [4 * loaded_model.dimension, 2 * loaded_model.dimension]
        assert (await board.found(LOAF, thread)).mode == "meaning"


async def test_an_operator_can_have_everything_reindexed(board: SearchableBoard, loaded_model: Model) -> None:
    thread = await board.post(*BREAD)
    async with board.worker():
        await board.settled()
        before = await live(board)
        await board.documents.command("DEL", BOARD_KEYS.doc(thread))
        await IndexVersions(board.store, BOARD_KEYS).reindex()
        after = await switched(board, before)
        assert after.epoch == before.epoch + 1
        await board.settled()
        assert (await board.search.state()).built is None
        assert (await board.found(LOAF, thread)).mode == "meaning"
        assert await board.ids("sourdough schedule") == [thread]


async def test_the_old_version_answers_until_the_new_one_is_whole(board: SearchableBoard, loaded_model: Model) -> None:
    """The switch waits until the backlog is empty."""
    await board.post(*BREAD)
    async with board.worker():
        await board.settled()
    versions = IndexVersions(board.store, BOARD_KEYS)
    target = IndexVersion("0123456789ab", "another-model", 3, "flat", 0)
    await versions.build(target)
    assert not await versions.switch(target), "not filled yet"
    await versions.mark_filled(target)
    await board.store.command("ZADD", BOARD_KEYS.backlog, 0, "a-thread")
    assert not await versions.switch(target), "a thread is still to be indexed"
    await board.store.command("DEL", BOARD_KEYS.backlog)
    assert await versions.switch(target)
    assert await live(board) == target
    assert not await versions.switch(target), "once is enough"


async def test_an_old_version_is_forgotten(
    board: SearchableBoard, loaded_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.search.indexing.reconcile.GRACE_SECONDS", 0.0)
    thread = await board.post(*BREAD)
    async with board.worker():
        await board.settled()
        before = await live(board)
        assert await board.documents.command("EXISTS", BOARD_KEYS.vector(before.name, thread, "0.0"))
        await IndexVersions(board.store, BOARD_KEYS).reindex()
        after = await switched(board, before)

        async def forgotten() -> bool:
            await board.store.command("SPUBLISH", BOARD_KEYS.current, "")
            return await IndexVersions(board.store, BOARD_KEYS).names() == [after.name]

        await until(forgotten)
        assert not await board.documents.command("EXISTS", BOARD_KEYS.vector(before.name, thread, "0.0"))
        assert not await board.documents.command("EXISTS", BOARD_KEYS.passages(before.name, thread))


async def test_an_old_version_takes_the_vectors_of_a_thread_along_that_was_just_removed(
    board: SearchableBoard, loaded_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread is in no list any more, and its event comes after the old version was forgotten. Otherwise its vectors
    would stay for ever.
    """
    monkeypatch.setattr("node.search.indexing.reconcile.GRACE_SECONDS", 0.0)
    thread = await board.post(*BREAD)
    async with board.worker():
        await board.settled()
    old, new = await live(board), IndexVersion("0123456789ab", "another-model", 3, "flat", 0)
    await board.board.moderation.purge(thread)
    versions = IndexVersions(board.store, BOARD_KEYS)
    await versions.use(new)
    await Reconciler(board.searched, Embedder("none", board.settings.data_dir), "auto").look()
    assert await versions.names() == [new.name]
    kept = (BOARD_KEYS.vector(old.name, thread, "0.0"), BOARD_KEYS.passages(old.name, thread))
    assert await board.documents.run_all([("EXISTS", each) for each in kept]) == [0, 0]


@pytest.mark.parametrize("search_redis", ["memory"], indirect=True)
async def test_a_version_that_is_used_again_has_its_whole_grace_when_it_is_replaced_again(
    board: SearchableBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("node.search.indexing.reconcile.time", SimpleNamespace(monotonic=lambda: now))
    versions = IndexVersions(board.store, BOARD_KEYS)
    flat, hnsw = IndexVersion("flat", "a-model", 3, "flat", 0), IndexVersion("hnsw", "a-model", 3, "hnsw", 0)
    reconciler = Reconciler(board.searched, Embedder("none", board.settings.data_dir), "auto")
    for version in (flat, hnsw, flat, hnsw):
        await versions.use(version)
        await reconciler.look()
        now += GRACE_SECONDS - 1
    assert set(await versions.names()) == {"flat", "hnsw"}
    now += 1
    await reconciler.look()
    assert await versions.names() == ["hnsw"]


async def test_auto_changes_with_the_size_of_the_board_and_not_to_and_fro(
    board: SearchableBoard, loaded_model: Model
) -> None:
    versions = IndexVersions(board.store, BOARD_KEYS)

    async def algorithm(passages: int, now: IndexVersion | None) -> str:
        return (await versions.wanted("auto", loaded_model, now, passages, "float16")).algorithm

    flat = IndexVersion("f", "m", 3, "flat", 0)
    hnsw = IndexVersion("h", "m", 3, "hnsw", 0)
    assert await algorithm(HNSW_FROM_PASSAGES - 1, None) == "flat"
    assert await algorithm(HNSW_FROM_PASSAGES - 1, flat) == "flat"
    assert await algorithm(HNSW_FROM_PASSAGES - 1, hnsw) == "hnsw"
    assert await algorithm(HNSW_FROM_PASSAGES, flat) == "hnsw"
    assert await algorithm(FLAT_BELOW_PASSAGES - 1, hnsw) == "flat"


@pytest.mark.parametrize("search_redis", [WITH_ENGINE], indirect=True)
async def test_replies_count_for_the_algorithm_as_threads_do(
    board: SearchableBoard, loaded_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each reply has a vector to compare with the query: few threads with many replies cost as much as many threads.
    monkeypatch.setattr("node.search.index_versions.FLAT_BELOW_PASSAGES", 2)
    monkeypatch.setattr("node.search.index_versions.HNSW_FROM_PASSAGES", 3)
    thread = await board.post(*BREAD)
    async with board.worker():
        await board.settled()
        one = await live(board)
        for body in ("Mix it before you go to bed.", "Mine needs longer in winter."):
            await board.reply(thread, body)
        await board.settled()
        await board.store.command("SPUBLISH", BOARD_KEYS.current, "")
        three = await switched(board, one)
        await board.settled()
    assert (one.algorithm, three.algorithm) == ("flat", "hnsw")


@pytest.mark.parametrize("late", range(6))
async def test_of_two_workers_that_fill_a_version_the_late_one_leaves_nothing_behind(
    board: SearchableBoard, late: int
) -> None:
    versions = IndexVersions(board.store, BOARD_KEYS)
    version = IndexVersion("0123456789ab", "a-model", 3, "flat", 0)
    await versions.build(version)

    async def first() -> None:
        await versions.mark_filled(version)
        assert await versions.switch(version)

    async def second() -> None:
        for _ in range(late):
            await versions.is_filled()
        await versions.mark_filled(version)

    await asyncio.gather(first(), second())
    assert await versions.both() == (version, None)
