"""Board search, with a real model, on a Redis with the query engine and on one without."""

from collections.abc import Sequence

import pytest
from msgspec import UNSET

from node.embedding.embedder import Embedder
from node.embedding.model import Model
from node.search.corpus import EVERY, PostRef
from node.search.model import LowerThreshold
from node.search.passages import PASSAGE_CHARACTERS
from node.search.rpc.client import WorkerClient
from node.store.search_keys import BOARD_KEYS
from tests.search.searching import ANYTHING, SearchableBoard
from tests.support.node_under_test import until

BREAD = ("Sourdough schedule", "The starter doubles in six hours. When should I mix the dough to bake at seven?")
PROXY = ("Uploads stop after thirty seconds", "The connection is closed with error E4471 before the last byte.")
LONG = ("A long post", "Many words say little. " * 800 + "Z0EE9.")
TRAIN = ("From Vienna to Lisbon", "Two adults and a bicycle, any day in May, night trains are welcome.")


async def test_a_thread_is_found_by_text_at_once(board: SearchableBoard) -> None:
    for number in range(20):
        thread = await board.post(f"Thread about number {number}", f"Its code is ZX{number}Q.")
        found = await board.find(f"zx{number}q")
        assert found.mode == "text"
        assert [hit.thread_id for hit in found.hits] == [thread]


async def test_a_query_that_says_nothing_to_the_model_is_searched_for_by_text(
    board: SearchableBoard, loaded_model: Model
) -> None:
    """To the model, all of these are the same word, so each would be found by the meaning of any other."""
    for unknown in ("👍", "z" * 101):
        await board.post("A thread", unknown)
    thread = await board.post("Another thread", "y" * 101)
    async with board.worker():
        await board.settled()
        for query, expected in (("🍅", []), ("y" * 101, [thread])):
            found = await board.find(query)
            assert (found.mode, [hit.thread_id for hit in found.hits]) == ("text", expected)


async def test_a_thread_is_found_by_meaning(board: SearchableBoard, loaded_model: Model) -> None:
    threads = [await board.post(*each) for each in (BREAD, PROXY, TRAIN)]
    async with board.worker():
        hit = await board.found("at what time do I prepare the loaf for the oven", threads[0])
        assert hit.mode == "meaning"
        assert 0.7 <= hit.score < 1
        assert (await board.find("at what time do I prepare the loaf for the oven")).mode == "both"


async def test_what_is_posted_wakes_the_worker(
    board: SearchableBoard, loaded_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.search.indexing.indexer.POLL_SECONDS", 3600.0)
    async with board.worker():
        # The worker may find the first thread when it starts and looks by itself.
        for thread, query in (
            (BREAD, "at what time do I prepare the loaf for the oven"),
            (PROXY, "sending a file breaks off half a minute later"),
        ):
            hit = await board.found(query, await board.post(*thread), threshold=0.6)
            assert hit.mode == "meaning"
            await board.settled()


async def test_a_thread_that_has_no_vectors_yet_is_not_behind_one_that_contains_less(
    board: SearchableBoard, loaded_model: Model
) -> None:
    exact = await board.post("A German contract", "Who translates a German contract into English?")
    alike = await board.post("A German letter", "Who translates a German letter into English?")
    async with board.worker():
        await board.settled()
        version = await board.searched.versions.current()
        assert version
        await board.searched.documents.remove_all_vectors(version.name, [exact])
        await board.searched.changes.publish([PostRef(exact, EVERY)])
        found = await board.find("translate a German contract into English", ANYTHING)
        assert [(hit.thread_id, hit.mode) for hit in found.hits] == [(exact, "text"), (alike, "both")]


async def test_a_reply_that_has_no_vectors_yet_is_not_behind_a_thread_that_contains_less(
    board: SearchableBoard, loaded_model: Model
) -> None:
    replied = await board.post(*BREAD)
    alike = await board.post("A German letter", "Translate a German agreement into English")
    other = await board.post("Translation from German", "I translate treaties into English, from German or Dutch.")
    async with board.worker():
        await board.reply(replied, "Who translates a German contract into English?")
        await board.settled()
        version = await board.searched.versions.current()
        assert version
        await board.searched.documents.remove_vectors(version.name, {replied: ["1.0"]})
        await board.searched.changes.publish([PostRef(replied, 1)])
        found = await board.find("translate a German contract into English", ANYTHING)
        assert [hit.thread_id for hit in found.hits] == [replied, alike, other]


async def test_a_hit_says_what_was_found_and_where(board: SearchableBoard) -> None:
    thread = await board.post(*PROXY)
    (hit,) = (await board.find("E4471")).hits
    assert hit.thread_id == thread
    assert hit.title == PROXY[0]
    assert hit.snippet == PROXY[1]
    assert hit.score == 1.0
    assert hit.mode == "text"
    assert hit.url == f"http://node.example/board/{thread}"


async def test_a_version_is_found_however_it_is_written_and_shown(board: SearchableBoard) -> None:
    filler = "Nothing of interest is said here. " * 20
    other = await board.post("Tool 2.11.0", f"{filler} Of 10 nodes, 2 fail 5 times. {filler}")
    thread = await board.post("A new tool", f"{filler} It fails since v2.10.5 here. {filler}")
    for query in ("2.10.5", "v2.10.5", "tool@2.10.5"):
        (hit,) = (await board.find(query)).hits
        assert (hit.thread_id, hit.score) == (thread, 1.0)
        assert "since v2.10.5" in hit.snippet
    assert await board.ids("2.11") == [other]


async def test_threads_about_other_things_are_not_found(board: SearchableBoard, loaded_model: Model) -> None:
    for each in (BREAD, PROXY, TRAIN):
        await board.post(*each)
    async with board.worker():
        await board.settled()
        assert (await board.find("whale migration routes")).hits == []
        assert len((await board.find("whale migration routes", ANYTHING)).hits) == 3


async def test_a_search_without_hits_says_what_a_lower_threshold_finds(board: SearchableBoard) -> None:
    await board.post(*PROXY)
    found = await board.find("uploads stop zebra", 0.9)
    assert found.hits == []
    assert found.lower_threshold == LowerThreshold(0.65, 1)
    assert len((await board.find("uploads stop zebra", 0.65)).hits) == 1
    assert (await board.find("zebra monkey giraffe", 0.9)).lower_threshold is UNSET


async def test_replies_count(board: SearchableBoard, loaded_model: Model) -> None:
    threads = [await board.post(*each) for each in (BREAD, TRAIN)]
    async with board.worker():
        await board.reply(threads[1], "My cat has a fever and will not eat, her code is CAT-99.")
        hit = await board.found("sick pet without appetite", threads[1], 0.65)
        assert hit.snippet.startswith("My cat has a fever")
        assert await board.ids("cat-99") == [threads[1]]
        await board.reply(threads[1], "Another answer.")
        await board.settled()
        assert await board.ids("cat-99") == [threads[1]]


async def test_the_snippet_is_the_passage_that_matches(board: SearchableBoard, loaded_model: Model) -> None:
    filler = "The committee met on Tuesday and talked about the minutes of the last meeting. " * (
        PASSAGE_CHARACTERS // 70
    )
    body = f"{filler} Penguins cannot fly, but they swim better than most fish. {filler}"
    thread = await board.post("Minutes of the committee", body)
    async with board.worker():
        hit = await board.found("birds that live in the water", thread, 0.58)
        assert len(hit.snippet) <= 240
        by_text = await board.found("penguins", thread)
        assert "Penguins cannot fly" in by_text.snippet


async def test_a_closed_thread_is_not_found(board: SearchableBoard, loaded_model: Model) -> None:
    closed, hidden, opened = [await board.post(*each) for each in (BREAD, PROXY, TRAIN)]
    async with board.worker():
        await board.settled()
        await board.close(closed)
        await board.hide(hidden)
        assert await board.ids("anything at all", ANYTHING) == [opened]
        await board.gone(closed)
        await board.gone(hidden)
        assert await board.ids("E4471", ANYTHING) == [opened]


async def test_a_purged_thread_is_forgotten(board: SearchableBoard, loaded_model: Model) -> None:
    thread = await board.post(*BREAD)
    async with board.worker():
        await board.settled()
        await board.board.moderation.purge(thread)
        await board.gone(thread)
        assert await board.ids("sourdough", ANYTHING) == []


async def test_without_a_worker_search_is_by_text_and_says_so(board: SearchableBoard) -> None:
    noted = await board.post(*PROXY)
    found = await board.find("closed connection E4471")
    assert found.mode == "text"
    assert [hit.thread_id for hit in found.hits] == [noted]


@pytest.mark.parametrize("search_redis", ["memory"], indirect=True)
async def test_where_nobody_has_indexed_anything_the_newest_threads_are_read(board: SearchableBoard) -> None:
    threads = [await board.post(f"Thread number {n}", f"Its code is ZX{n}Q.", noted=n % 2 == 0) for n in range(150)]
    assert await board.ids("zx148q") == [threads[148]]
    assert await board.ids("zx149q") == [threads[149]]


async def test_a_worker_without_a_model_indexes_text(board: SearchableBoard) -> None:
    thread = await board.post(*PROXY, noted=False)
    async with board.worker(embedding_model="none"):
        hit = await board.found("E4471", thread)
        assert hit.mode == "text"
        await board.reply(thread, "Set proxy_read_timeout to 300.")
        await board.found("proxy_read_timeout", thread)
        await board.emptied()
    assert (await board.find("E4471")).mode == "text"


async def test_limit_and_threshold_bound_the_hits(board: SearchableBoard) -> None:
    for number in range(12):
        await board.post(f"Sourdough question {number}", "It is about bread." if number % 2 else "About dough.")
    assert len((await board.find("sourdough")).hits) == 5
    assert len((await board.find("sourdough", limit=50)).hits) == 12
    assert len((await board.find("sourdough bread", 0.7, 50)).hits) == 6
    assert len((await board.find("sourdough bread", 0.5, 50)).hits) == 12
    assert [hit.score for hit in (await board.find("sourdough bread", 0.5, 50)).hits] == [1.0] * 6 + [0.5] * 6


async def test_the_texts_of_ten_hits_are_read_in_one_trip(
    board: SearchableBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        await board.post(f"Sourdough question {number}", "It is about bread.")
    read: list[int] = []
    posts = board.corpora[0].source.posts

    async def counted(refs: Sequence[tuple[str, int]]) -> list[tuple[str, str, str]]:
        read.append(len(refs))
        return await posts(refs)

    monkeypatch.setattr(board.corpora[0].source, "posts", counted)
    assert len((await board.find("sourdough", limit=10)).hits) == 10
    assert read == [10]


async def test_what_is_asked_twice_is_embedded_once(
    board: SearchableBoard, loaded_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    question, embedded, embed = "how do I bake a loaf", list[str](), Embedder.queries

    async def queries(embedder: Embedder, texts: Sequence[str]) -> list[bytes]:
        embedded.extend(texts)
        return await embed(embedder, texts)

    monkeypatch.setattr(Embedder, "queries", queries)
    await board.post(*BREAD)
    async with board.worker():
        await board.settled()
        await board.find(question)
        cached = BOARD_KEYS.query_vector(question)

        async def there() -> bool:
            return await board.store.command("EXISTS", cached) == 1

        await until(there)
        left = await board.store.command("TTL", cached)
        assert isinstance(left, int)
        assert 0 < left <= 600
        assert await WorkerClient(board.store, BOARD_KEYS).vector_of(question), "as another process asks"
    assert embedded.count(question) == 1


async def test_a_note_does_not_replace_what_the_worker_made(board: SearchableBoard) -> None:
    """A note has only the beginning of a long text, and may arrive after the worker has indexed all of it."""
    thread = await board.post(*LONG, noted=False)
    async with board.worker(embedding_model="none"):
        await board.found("z0ee9", thread)
    await board.search.note(thread, *LONG)
    assert await board.ids("z0ee9") == [thread]


async def test_the_end_of_a_long_post_is_found(board: SearchableBoard, loaded_model: Model) -> None:
    thread = await board.post(*LONG)
    assert await board.ids("A long post") == [thread]
    async with board.worker():
        await board.found("z0ee9", thread)
        await board.settled()
        assert "Z0EE9." in (await board.find("z0ee9")).hits[0].snippet
