"""A reply is indexed by itself: indexing it costs what the reply weighs, and its thread can be found by it."""

import asyncio
from collections.abc import Collection, Sequence
from functools import partial
from typing import cast

import pytest

from node.board.model import NewThread
from node.embedding.model import Model
from node.search import passages as passage
from node.search.corpus import Post
from node.search.index_versions import IndexVersions
from node.search.indexing.documents import Documents
from node.search.indexing.queue import IndexQueue
from node.search.worker import SearchWorker
from node.sign.signed import UNSIGNED
from node.store import ids, keys
from node.store.outbox import Event
from node.store.search_keys import BOARD_KEYS
from node.text.terms import MARK, marks_of, terms_of
from tests.search.searching import ANYTHING, CLIENT, SearchableBoard
from tests.support.models import embedded_texts
from tests.support.node_under_test import until
from tests.support.rates import Unlimited

BREAD = ("Sourdough schedule", "The starter doubles in six hours. When should I mix the dough to bake at seven?")
LONG = "The committee met on Tuesday and talked about the minutes of the last meeting. " * 120
ANSWERS = [f"Answer number {number} is about the {word}." for number, word in enumerate(["oven", "flour", "salt"], 1)]


async def sent_by_redis(board: SearchableBoard) -> int:
    """Return the number of bytes that Redis has sent to all clients."""
    infos = cast("list[bytes]", await board.documents.everywhere("INFO", "stats"))
    lines = [line for info in infos for line in info.split()]
    return sum(int(line.partition(b":")[2]) for line in lines if line.startswith(b"total_net_output_bytes:"))


async def documents(board: SearchableBoard, thread: str) -> tuple[set[int], set[str], set[bytes]]:
    """Return what search holds of a thread: numbers of replies with a document, passages with a vector, marks of
    replies.
    """
    numbers = await board.documents.command("SMEMBERS", BOARD_KEYS.reply_docs(thread))
    marks = cast("bytes", await board.documents.command("GETRANGE", BOARD_KEYS.reply_marks(thread), 0, -1))
    passages = {name for of_thread, name in await board.vectors() if of_thread == thread}
    return (
        {int(number) for number in cast("list[bytes]", numbers)},
        passages,
        {marks[start : start + MARK] for start in range(0, len(marks), MARK)},
    )


async def has_document(board: SearchableBoard, thread: str, seq: int) -> bool:
    return bool(await board.documents.command("EXISTS", BOARD_KEYS.reply_doc(thread, seq)))


async def has_none_waiting(board: SearchableBoard) -> bool:
    return await IndexQueue(board.store, BOARD_KEYS).lengths() == (0, 0)


async def test_a_reply_costs_what_it_weighs_and_not_what_its_thread_weighs(
    board: SearchableBoard, loaded_model: Model
) -> None:
    """A new reply must not make its whole thread be read, tokenised and written again."""
    thread = await board.post(*BREAD)
    for _ in range(20):
        await board.reply(thread, LONG)
    async with board.worker():
        await board.settled()
        before = await sent_by_redis(board)
        for number in range(10):
            await board.reply(thread, f"A short answer, the code of which is ZX{number}Q.")
            # Asking this repeatedly costs little, unlike `found` and `emptied`.
            await until(partial(has_document, board, thread, 21 + number))
            await board.found(f"ZX{number}Q", thread)
        await until(partial(has_none_waiting, board))
        assert await sent_by_redis(board) - before < 20 * len(LONG), "the long ones were not read again"


async def test_words_of_a_thread_and_its_replies_count_together(board: SearchableBoard) -> None:
    thread = await board.post(*BREAD)
    async with board.worker(embedding_model="none"):
        for answer in ANSWERS:
            await board.reply(thread, answer)
        await board.emptied()
        assert (await board.found("sourdough oven flour salt", thread, 1.0)).score == 1.0
        assert (await board.found("sourdough oven pepper cumin", thread, 0.5)).score == 0.5


async def test_the_snippet_is_cut_from_the_reply_that_matches_best(board: SearchableBoard) -> None:
    thread = await board.post(*BREAD)
    async with board.worker(embedding_model="none"):
        for answer in [*ANSWERS, *(f"Nothing new at {hour} o'clock." for hour in range(1, 9))]:
            await board.reply(thread, answer)
        await board.emptied()

        # By the worker, which knows the reply; an answer given before the worker is there does not.
        async def shown() -> bool:
            return (await board.found("flour", thread)).snippet == ANSWERS[1]

        await until(shown)
        assert (await board.found("starter", thread)).snippet == BREAD[1]


async def test_the_same_reply_again_changes_nothing(board: SearchableBoard, loaded_model: Model) -> None:
    thread = await board.post(*BREAD)
    async with board.worker():
        for answer in ANSWERS:
            await board.reply(thread, answer)
        await board.settled()
        before = await documents(board, thread)
        size = await board.documents.command("STRLEN", BOARD_KEYS.reply_marks(thread))
        outbox = keys.events(ids.partition_of_id(thread))
        for seq in (2, 1, 3, 2):
            await board.store.command("XADD", outbox, "*", "type", "reply.posted", "id", thread, "seq", seq)
        await board.store.command("SPUBLISH", outbox, "reply.posted")
        await board.emptied()
        assert await documents(board, thread) == before
        assert await board.documents.command("STRLEN", BOARD_KEYS.reply_marks(thread)) == size


async def test_a_reindexed_thread_has_the_documents_that_it_had(
    board: SearchableBoard, loaded_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.search.passages.MAX_PASSAGES", 6)
    thread = await board.post(*BREAD)
    async with board.worker():
        for number in range(4):
            await board.reply(thread, f"{LONG[:900]} Number {number}.")
            await board.reply(thread, ANSWERS[number % 3])
        await board.settled()
        before = await documents(board, thread)
        assert before[0] == set(range(1, 9))
        assert before[1] == {"0.0", "8.0", "7.0", "7.1", "6.0"}, "the newest that fit"
        old = await IndexVersions(board.store, BOARD_KEYS).current()
        await IndexVersions(board.store, BOARD_KEYS).reindex()

        async def switched() -> bool:
            return await IndexVersions(board.store, BOARD_KEYS).current() != old

        await until(switched)
        await board.emptied()
        assert await documents(board, thread) == before


async def test_while_a_thread_is_reindexed_it_is_found_by_what_it_had(
    board: SearchableBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, go_on = asyncio.Event(), asyncio.Event()
    start, put = Documents.start_reindex, Documents.reindex

    async def held_up(documents: Documents, thread: str, posts: Sequence[Post], replies: Collection[int]) -> None:
        read.set()
        await go_on.wait()
        await put(documents, thread, posts, replies)

    async def started_twice(documents: Documents, thread: str) -> set[int]:
        await start(documents, thread)  # as by a worker that died at this point
        return await start(documents, thread)

    monkeypatch.setattr(Documents, "reindex", held_up)
    monkeypatch.setattr(Documents, "start_reindex", started_twice)
    thread = await board.post(*BREAD)
    async with board.worker(embedding_model="none"):
        for answer in ANSWERS[:2]:
            await board.reply(thread, answer)
        await board.emptied()
        before = await documents(board, thread)
        await board.searched.queue.add_to_backlog([thread])
        await read.wait()
        assert await board.ids("sourdough oven flour", 1.0) == [thread]
        await board.reply(thread, ANSWERS[2])
        await board.found("sourdough oven flour salt", thread, 1.0)
        go_on.set()
        await board.emptied()
        assert await board.ids("sourdough oven flour salt", 1.0) == [thread]
        replies, _, marks = await documents(board, thread)
        assert (replies, marks - before[2]) == ({1, 2, 3}, {marks_of([term]) for term in terms_of("3 salt")})
        assert await board.documents.command("PTTL", BOARD_KEYS.reply_marks(thread)) == -1, "they stay"
        assert not await board.documents.command("EXISTS", BOARD_KEYS.next_marks(thread))


async def test_without_memory_it_is_found_that_nothing_of_an_entity_is_left(board: SearchableBoard) -> None:
    """Removing it afterwards frees memory."""
    thread = await board.post(*BREAD)
    async with board.worker(embedding_model="none"):
        await board.reply(thread, ANSWERS[0])
        await board.emptied()
    indexed = board.searched.documents
    await board.documents.everywhere("CONFIG", "SET", "maxmemory", 1)
    try:
        await indexed.reindex(thread, [], await indexed.start_reindex(thread))
    finally:
        await board.documents.everywhere("CONFIG", "SET", "maxmemory", 0)
    assert await documents(board, thread) == (set(), set(), set())


async def test_of_replies_that_wait_only_those_are_embedded_that_stay(
    board: SearchableBoard, loaded_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded = embedded_texts(monkeypatch)
    thread = await board.post(*BREAD)
    for number in range(12):
        await board.reply(thread, f"{number} {LONG}")
    came = [Event("1-1", 0, "thread.posted", thread, {})]
    came += [Event("1-1", 0, "reply.posted", thread, {"seq": str(number)}) for number in range(1, 13)]
    await SearchWorker(board.store, board.documents, board.corpora, board.settings).handle(came)
    async with board.worker():
        await board.settled()
    assert {name.partition(".")[0] for _, name in await board.vectors()} == {"0", "12", "11", "10", "9"}
    assert len(embedded) == len(await board.vectors()) <= passage.MAX_PASSAGES


async def test_of_many_replies_the_newest_are_indexed(board: SearchableBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.search.indexing.documents.INDEXED_REPLIES", 2)
    thread = await board.post(*BREAD)
    async with board.worker(embedding_model="none"):
        for answer in ANSWERS:
            await board.reply(thread, answer)
        await board.emptied()
        assert (await documents(board, thread))[0] == {2, 3}
        assert not await has_document(board, thread, 1)
        assert await board.ids("flour", 1.0) == await board.ids("salt", 1.0) == [thread]


async def test_a_word_is_found_though_newer_replies_say_more_than_is_counted(
    board: SearchableBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.search.indexing.documents.REPLY_MARKS", 8)
    thread = await board.post(*BREAD)
    async with board.worker(embedding_model="none"):
        for number in range(12):
            await board.reply(thread, f"Its code is ZX{number}Q, that of the others another.")
        await board.emptied()
        assert await board.documents.command("STRLEN", BOARD_KEYS.reply_marks(thread)) <= 2 * 8 * MARK  # type: ignore[operator]
        for number in range(12):
            await board.found(f"zx{number}q", thread)


async def test_nothing_of_the_replies_is_left_when_a_thread_is_closed(
    board: SearchableBoard, loaded_model: Model
) -> None:
    thread, other = await board.post(*BREAD), await board.post("From Vienna to Lisbon", "Night trains are welcome.")
    async with board.worker():
        for answer in ANSWERS:
            await asyncio.gather(board.reply(thread, answer), board.reply(other, answer))
        await board.settled()
        await board.close(thread)
        await board.gone(thread)
        await board.emptied()
        assert await documents(board, thread) == (set(), set(), set())
        assert not any([await has_document(board, thread, seq) for seq in (1, 2, 3)])
        assert await board.ids("flour", ANYTHING) == [other]


async def test_a_document_that_holds_a_thread_with_its_replies_is_as_good(board: SearchableBoard) -> None:
    """Version 1.0.0 wrote such documents, before replies had documents of their own."""
    title, body = BREAD
    thread, _ = await board.board.post(Unlimited(CLIENT), NewThread(title, body), UNSIGNED, None)
    terms = terms_of(f"{title}\n{body}\n{ANSWERS[0]}")
    await board.search.note(thread.id, title, body)
    await board.documents.command("DEL", BOARD_KEYS.doc(thread.id))
    fields = ("seq", 1, "terms", " ".join(terms), "marks", marks_of(terms))
    await board.documents.command("HSET", BOARD_KEYS.doc(thread.id), *fields)
    assert await board.ids("sourdough oven", 1.0) == [thread.id]
    await board.reply(thread.id, ANSWERS[0])
    async with board.worker(embedding_model="none"):
        await board.reply(thread.id, ANSWERS[1])
        await board.found("sourdough oven flour", thread.id, 1.0)
