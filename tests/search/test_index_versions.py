"""Another kind of index is built beside the one in use, and takes its place when it is whole."""

import pytest

from node.embedding.model import Model
from node.search.index_versions import FLAT_BELOW_THREADS, HNSW_FROM_THREADS, IndexVersion, IndexVersions
from node.store import keys
from tests.search.searching import SearchableBoard, until

BREAD = ("Sourdough schedule", "The starter doubles in six hours. When should I mix the dough to bake at seven?")
LOAF = "at what time do I prepare the loaf for the oven"


async def live(board: SearchableBoard) -> IndexVersion:
    found = await IndexVersions(board.store).current()
    assert found is not None
    return found


async def switched(board: SearchableBoard, old: IndexVersion) -> IndexVersion:
    """The generation that has taken the place of another."""

    async def other() -> bool:
        return await live(board) != old

    await until(other, "another generation is in use")
    return await live(board)


async def test_another_algorithm_is_built_without_embedding_anew(board: SearchableBoard, loaded_model: Model) -> None:
    thread = await board.post(*BREAD)
    async with board.worker(vector_index="flat"):
        await board.settled()
        flat = await live(board)
    before = await board.documents.command("HGET", keys.vector(flat.name, thread, "0.0"), "vector")
    async with board.worker(vector_index="hnsw"):
        hnsw = await switched(board, flat)
        assert (flat.algorithm, hnsw.algorithm) == ("flat", "hnsw")
        assert await board.documents.command("HGET", keys.vector(hnsw.name, thread, "0.0"), "vector") == before
        await board.found(LOAF, thread)
        await board.settled()


async def test_another_model_is_built_beside_the_one_in_use(board: SearchableBoard, loaded_model: Model) -> None:
    thread = await board.post(*BREAD)
    older = IndexVersion("0123456789ab", "another-model", 3, "flat", 0)
    versions = IndexVersions(board.store)
    await versions.use(older)
    async with board.worker():
        newer = await switched(board, older)
        assert newer.dimension == loaded_model.dimension
        await board.found(LOAF, thread)
        assert set(await versions.names()) == {older.name, newer.name}
        await board.settled()


async def test_an_operator_can_have_everything_indexed_anew(board: SearchableBoard, loaded_model: Model) -> None:
    thread = await board.post(*BREAD)
    async with board.worker():
        await board.settled()
        before = await live(board)
        assert await IndexVersions(board.store).left() is None
        await board.documents.command("DEL", keys.doc(thread))
        await IndexVersions(board.store).reindex()
        after = await switched(board, before)
        assert after.epoch == before.epoch + 1
        await board.settled()
        assert await IndexVersions(board.store).left() is None
        assert (await board.found(LOAF, thread)).mode == "meaning"
        assert await board.ids("sourdough schedule") == [thread]


async def test_the_old_generation_answers_until_the_new_one_is_whole(
    board: SearchableBoard, loaded_model: Model
) -> None:
    """The switch waits for the backlog."""
    await board.post(*BREAD)
    async with board.worker():
        await board.settled()
    versions = IndexVersions(board.store)
    target = IndexVersion("0123456789ab", "another-model", 3, "flat", 0)
    await versions.build(target)
    assert not await versions.switch(target), "not filled yet"
    await versions.mark_filled(target)
    await board.store.command("ZADD", keys.SEARCH_BACKLOG, 0, "a-thread")
    assert not await versions.switch(target), "a thread is still to be indexed"
    await board.store.command("DEL", keys.SEARCH_BACKLOG)
    assert await versions.switch(target)
    assert await live(board) == target
    assert not await versions.switch(target), "once is enough"


async def test_an_old_generation_is_forgotten(
    board: SearchableBoard, loaded_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.search.indexing.reconcile.GRACE_SECONDS", 0.0)
    thread = await board.post(*BREAD)
    async with board.worker():
        await board.settled()
        before = await live(board)
        assert await board.documents.command("EXISTS", keys.vector(before.name, thread, "0.0"))
        await IndexVersions(board.store).reindex()
        after = await switched(board, before)

        async def forgotten() -> bool:
            await board.store.command("SPUBLISH", keys.SEARCH_LIVE, "")
            return await IndexVersions(board.store).names() == [after.name]

        await until(forgotten, "the old generation is gone")
        assert not await board.documents.command("EXISTS", keys.vector(before.name, thread, "0.0"))
        assert not await board.documents.command("EXISTS", keys.passages(before.name, thread))


async def test_auto_changes_with_the_size_of_the_board_and_not_to_and_fro(
    board: SearchableBoard, loaded_model: Model
) -> None:
    versions = IndexVersions(board.store)

    async def algorithm(threads: int, now: IndexVersion | None) -> str:
        return (await versions.wanted("auto", loaded_model, now, threads)).algorithm

    flat = IndexVersion("f", "m", 3, "flat", 0)
    hnsw = IndexVersion("h", "m", 3, "hnsw", 0)
    assert await algorithm(HNSW_FROM_THREADS - 1, None) == "flat"
    assert await algorithm(HNSW_FROM_THREADS - 1, flat) == "flat"
    assert await algorithm(HNSW_FROM_THREADS - 1, hnsw) == "hnsw"
    assert await algorithm(HNSW_FROM_THREADS, flat) == "hnsw"
    assert await algorithm(FLAT_BELOW_THREADS - 1, hnsw) == "flat"
