"""Posts that change while one worker indexes them, and are meanwhile indexed by another."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from node.board.thread_reader import ThreadReader
from node.embedding.embedder import Embedder
from node.embedding.model import Model
from node.search.corpus import Post
from node.search.index_versions import IndexVersion
from node.search.indexing.documents import Documents
from node.search.indexing.queue import IndexQueue
from node.search.indexing.reconcile import Reconciler
from node.search.worker import SearchWorker
from node.store import ids, keys
from node.store.errors import OutOfMemory
from node.store.search_keys import BOARD_KEYS, SearchKeys
from tests.search.searching import SearchableBoard
from tests.search.test_corpora import Agents, Card
from tests.support.node_under_test import until
from tests.support.servers import PATIENCE

BREAD = ("Sourdough schedule", "The starter doubles in six hours. When should I mix the dough to bake at seven?")


@pytest.fixture(autouse=True)
def long_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make leases last for as long as a busy machine may hold a worker up."""
    monkeypatch.setattr("node.search.indexing.queue.LEASE_MS", 86_400_000)


class Hold:
    """Holds up one call of a method until `ends` is set: the first call with matching arguments."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        method: Callable[..., Any],
        is_meant: Callable[..., bool] = lambda *_: True,
        *,
        once_done: bool = False,
    ) -> None:
        """`once_done`: hold the call after the method has done its work, before it returns."""
        self.has_one = asyncio.Event()
        self.ends = asyncio.Event()

        async def held(this: object, *given: Any, **named: Any) -> object:
            is_held = is_meant(*given) and not self.has_one.is_set()
            result = await method(this, *given, **named) if once_done or not is_held else None
            if not is_held:
                return result
            self.has_one.set()
            await self.ends.wait()
            return result if once_done else await method(this, *given, **named)

        owner, _, name = method.__qualname__.rpartition(".")
        monkeypatch.setattr(f"{method.__module__}.{owner}.{name}", held)

    @classmethod
    def embedding(cls, monkeypatch: pytest.MonkeyPatch) -> "Hold":
        """Hold up the embedding of the first passage with the word `secret`."""

        def is_meant(texts: Sequence[str]) -> bool:
            return any("secret" in text for text in texts)

        return cls(monkeypatch, Embedder.passages, is_meant)


@asynccontextmanager
async def worker_without_events(board: SearchableBoard) -> AsyncGenerator[None]:
    """A worker that only indexes what is in the queues."""
    worker = SearchWorker(board.store, board.documents, board.corpora, board.settings)
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop))
    try:
        yield
    finally:
        stop.set()
        await running
        worker.close()


async def all_is_done_but_one(board: SearchableBoard, thread: str) -> None:
    """Return once all events of a thread but one are handled, and nothing waits to be indexed."""

    async def done() -> bool:
        nothing_waits = await IndexQueue(board.store, BOARD_KEYS).lengths() == (0, 0)
        return nothing_waits and await board.lag(keys.events(ids.partition_of_id(thread))) == 1

    await until(done, PATIENCE)


async def test_a_reply_that_is_hidden_while_it_is_embedded_has_no_vector(
    board: SearchableBoard, loaded_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the thread would be found by the meaning of the hidden reply."""
    thread = await board.post(*BREAD)
    async with board.worker():
        await board.settled()
        hold = Hold.embedding(monkeypatch)
        await board.reply(thread, "It is the secret of a happy cat.")
        await hold.has_one.wait()

        async def another_has_done_the_rest() -> bool:
            has_document = await board.documents.command("EXISTS", BOARD_KEYS.reply_doc(thread, 1))
            left = await board.store.command("ZRANGE", BOARD_KEYS.pending, 0, -1)
            return not has_document and left == [f"{thread}:1".encode()]

        async with board.worker():
            await board.board.moderation.hide(thread, 1)
            await until(another_has_done_the_rest, PATIENCE)
            hold.ends.set()
            await board.settled()
            assert await board.vectors() == {(thread, "0.0")}


async def test_a_reply_that_is_hidden_while_it_is_put_into_the_index_has_no_document(
    board: SearchableBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = await board.post(*BREAD)
    async with board.worker(embedding_model="none"):
        await board.emptied()
        hold = Hold(monkeypatch, Documents.put)
        await board.reply(thread, "It is the secret of a happy cat.")
        await hold.has_one.wait()
        async with board.worker(embedding_model="none"):
            await board.board.moderation.hide(thread, 1)
            await all_is_done_but_one(board, thread)
            hold.ends.set()
            await board.emptied()
            assert not await board.documents.command("EXISTS", BOARD_KEYS.reply_doc(thread, 1))


async def test_a_reply_that_comes_while_its_thread_is_reindexed_keeps_its_vector(
    board: SearchableBoard, loaded_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = await board.post(*BREAD)
    async with board.worker():
        await board.settled()

    async def has_vector() -> bool:
        return (thread, "1.0") in await board.vectors()

    hold = Hold(monkeypatch, ThreadReader.newest_replies, once_done=True)
    async with worker_without_events(board):
        await IndexQueue(board.store, BOARD_KEYS).add_to_backlog([thread])
        await hold.has_one.wait()
        async with board.worker():
            await board.reply(thread, "Before you go to bed.")
            await until(has_vector, PATIENCE)
            hold.ends.set()
            await board.settled()
            assert await has_vector()


async def test_a_reply_that_is_embedded_while_newer_ones_take_its_place_has_no_vector(
    board: SearchableBoard, loaded_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise two workers that do not see each other's vectors would both keep theirs: more than an entity
    may have.
    """
    monkeypatch.setattr("node.search.passages.MAX_PASSAGES", 3)
    thread = await board.post(*BREAD)
    async with board.worker():
        await board.settled()
        hold = Hold.embedding(monkeypatch)
        await board.reply(thread, "It is the secret of a happy cat.")
        await hold.has_one.wait()

        async def has_newer_ones() -> bool:
            return {(thread, "2.0"), (thread, "3.0")} <= await board.vectors()

        async with board.worker():
            await board.reply(thread, "Before you go to bed.")
            await board.reply(thread, "As soon as you wake up.")
            await until(has_newer_ones, PATIENCE)
            hold.ends.set()
            await board.settled()
            assert await board.vectors() == {(thread, "0.0"), (thread, "2.0"), (thread, "3.0")}


async def test_a_vector_that_makes_room_for_a_reply_while_another_is_hidden_comes_back(
    board: SearchableBoard, loaded_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:

    def is_removal(_: str, named: Mapping[str, Collection[str]]) -> bool:
        return any(named.values())

    monkeypatch.setattr("node.search.passages.MAX_PASSAGES", 3)
    thread = await board.post(*BREAD)
    async with board.worker():
        await board.reply(thread, "Before you go to bed.")
        await board.reply(thread, "As soon as you wake up.")
        await board.settled()
        hold = Hold(monkeypatch, Documents.remove_vectors, is_removal)
        await board.reply(thread, "It is the secret of a happy cat.")
        await hold.has_one.wait()
        async with board.worker():
            await board.board.moderation.hide(thread, 2)

            async def another_has_done_the_rest() -> bool:
                return await board.vectors() == {(thread, "0.0"), (thread, "1.0"), (thread, "3.0")}

            await until(another_has_done_the_rest, PATIENCE)
            hold.ends.set()
            await board.settled()
            assert await another_has_done_the_rest()


async def test_what_is_put_into_the_index_while_it_is_removed_is_named_or_gone(board: SearchableBoard) -> None:
    """A vector whose name is not recorded would never be removed, whatever happens to its thread."""
    documents, keys_of = board.searched.documents, BOARD_KEYS
    thread, version = ids.new_id(), IndexVersion("version", "model", 1, "flat", 0)
    passage, post = (thread, "1.0"), Post(thread, 1, "Before you go to bed.")
    putting = (lambda: documents.put_vectors(version, {passage: b"0000"}, {}), lambda: documents.put([post]))
    removing = (
        lambda: documents.remove_vectors(version.name, {thread: ["1.0"]}),
        lambda: documents.remove_replies(thread, [1]),
    )
    for put, remove in zip(putting, removing, strict=True):
        await asyncio.gather(put(), remove())
        await put()
        await asyncio.gather(remove(), put())
    for document, names in (
        (keys_of.vector("version", *passage), keys_of.passages("version", thread)),
        (keys_of.reply_doc(thread, 1), keys_of.reply_docs(thread)),
    ):
        assert await board.documents.command("EXISTS", document) == await board.documents.command("SCARD", names)


async def test_what_another_worker_has_indexed_is_not_replaced_by_what_was_read_before(
    board: SearchableBoard, loaded_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = Agents(board)
    queue = IndexQueue(board.store, SearchKeys("catalogue"))

    async def nothing_waits() -> bool:
        return await queue.lengths() == (0, 0)

    async with board.worker():
        agent = await agents.register("Gardener", ["Grows roses"])
        other = await agents.register("Postman", ["Carries letters"])
        await agents.meant("Grows roses", agent)
        await agents.meant("Carries letters", other)
        await until(nothing_waits, PATIENCE)

    async def only_two_are_leased() -> bool:
        return await queue.lengths() == (0, 2)

    hold = Hold.embedding(monkeypatch)
    async with worker_without_events(board):
        agents.catalogue.cards[agent] = Card("Gardener", ["Keeps a secret diary"])
        await queue.add_to_backlog([agent, other])  # two, so that one is left when the other worker is done
        await hold.has_one.wait()
        async with board.worker():
            await agents.change(agent, Card("Gardener", ["Repairs bicycles"]))
            await agents.meant("Repairs bicycles", agent)
            await until(only_two_are_leased, PATIENCE)
            hold.ends.set()
            await until(nothing_waits, PATIENCE)
            assert not await agents.find("Keeps a secret diary", 0.9)
            assert await agents.find("Repairs bicycles", 0.9)


async def test_a_thread_that_is_opened_again_while_it_is_removed_from_the_index_is_in_it(
    board: SearchableBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = await board.post(*BREAD)
    async with board.worker(embedding_model="none"):
        await board.emptied()
        hold = Hold(monkeypatch, Documents.remove)
        await board.close(thread)
        await hold.has_one.wait()
        async with board.worker(embedding_model="none"):
            await board.board.moderation.set_status(thread, "open")
            await all_is_done_but_one(board, thread)
            hold.ends.set()
            await board.emptied()
            assert await board.documents.command("EXISTS", BOARD_KEYS.doc(thread)) == 1


@pytest.mark.parametrize("search_redis", ["memory"], indirect=True)
async def test_a_comparison_of_all_threads_that_was_broken_off_is_made_again(
    board: SearchableBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a query engine there is no count of documents that would show that it is missing."""
    await board.post(*BREAD, noted=False)
    add_to_backlog = IndexQueue.add_to_backlog

    async def full(queue: IndexQueue, entities: Collection[str]) -> None:
        monkeypatch.setattr(IndexQueue, "add_to_backlog", add_to_backlog)
        raise OutOfMemory("the memory of Redis is full")

    monkeypatch.setattr(IndexQueue, "add_to_backlog", full)
    embedder = Embedder("none", board.settings.data_dir)
    reconciler = Reconciler(board.searched, embedder, "auto")
    with pytest.raises(OutOfMemory):
        await reconciler.look()
    await reconciler.look()
    assert await board.searched.queue.lengths() == (0, 1)
    embedder.close()
