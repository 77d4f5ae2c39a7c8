"""What a search may cost: so many characters, in small pieces, one search of a client after the other."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from string import ascii_lowercase

import pytest
import pytest_asyncio

from node.board.model import NewThread
from node.common.refusal import Refused
from node.search import retrieval, snippets
from node.search import service as search
from node.search.corpus import Corpus
from node.search.effort import SLICE_CHARACTERS
from node.search.indexing import documents
from node.search.model import SearchQuery
from node.search.ranking import RankedEntities, SearchRequest
from node.search.snippets import Excerpt, WantedTerms
from node.store import StoreUnavailable
from node.store.search_keys import BOARD_KEYS
from node.text.terms import QueryTerms
from tests.search.searching import ANYTHING, CLIENT, SearchableBoard, searchable
from tests.support.node_under_test import until
from tests.support.servers import RedisServer

LONGEST = 20_000  # characters of a post
THREADS = 12
OTHER = "203.0.113.8"
MOST_MARKS = retrieval.MAX_MARKS // retrieval.MARKS_A_CHARACTER
ONE_MORE = 2 * snippets.PIECE_CHARACTERS  # by so much a bound is exceeded at most: that of the piece under way

random = Random(7)


def passes(_text: str) -> bool:
    """The gate lets it through: what is sampled of a long text is not the matter here."""
    return True


def noise(characters: int) -> str:
    """Words of four letters that nobody looks for."""
    return " ".join("".join(random.choices(ascii_lowercase, k=4)) for _ in range(characters // 5))


@pytest_asyncio.fixture
async def hostile(board: SearchableBoard, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SearchableBoard]:
    """A board of posts as long as they may be, each with the word zebra and no other that has a meaning."""
    monkeypatch.setattr("node.text.judged.is_english", passes)
    for number in range(THREADS):
        thread, _ = await board.board.post(NewThread(f"Thread {number}", f"zebra {noise(LONGEST - 10)}"), None, None)
        await board.reply(thread.id, f"zebra {noise(LONGEST - 10)}")
    async with board.worker(embedding_model="none"):
        await board.emptied()
        yield board


async def test_a_search_looks_at_so_many_characters_and_no_more(
    hostile: SearchableBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A word that occurs nowhere used to have every word of every post looked at."""
    queries = ("zebra qqqqq", "zebra", f"zebra {noise(2000)}")
    for query in queries:
        assert len((await hostile.find(query, ANYTHING, 50)).hits) == THREADS, query
        assert THREADS * 10_000 < hostile.looked[-1] <= search.CHARACTERS + MOST_MARKS + ONE_MORE, query
    monkeypatch.setattr(search, "CHARACTERS", 50_000)
    for query in queries:
        assert len((await hostile.find(query, ANYTHING, 50)).hits) == THREADS, query
        assert hostile.looked[-1] <= 50_000 + MOST_MARKS + THREADS * ONE_MORE, query


async def test_one_hit_takes_no_more_than_its_share(hostile: SearchableBoard) -> None:
    await hostile.find("zebra qqqqq", ANYTHING, 1)
    assert hostile.looked[-1] <= search.CHARACTERS_A_HIT + MOST_MARKS + ONE_MORE


async def test_what_many_threads_contain_is_looked_at_as_far_as_the_bound(
    hostile: SearchableBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "MAX_MARKS", 1)
    monkeypatch.setattr(retrieval, "ENTITIES_AT_ONCE", 1)
    monkeypatch.setattr(search, "CHARACTERS_A_HIT", 0)
    found = await hostile.find("zebra qqqqq", ANYTHING, 50)
    assert {hit.score for hit in found.hits} == {0.5}, "what the engine found has one of the words at least"
    assert hostile.looked[-1] <= LONGEST + THREADS * (search.LEAST_CHARACTERS + ONE_MORE)


async def test_others_have_their_turn_while_a_search_looks_at_texts(hostile: SearchableBoard) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    busy = asyncio.create_task(others())
    await hostile.find("zebra qqqqq", ANYTHING, 50)
    busy.cancel()
    assert turns >= hostile.looked[-1] / (SLICE_CHARACTERS + ONE_MORE)


async def test_a_post_of_noise_takes_no_more_room_than_one_of_words(
    board: SearchableBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each new word costs an index many times what it weighs."""
    monkeypatch.setattr("node.text.judged.is_english", passes)
    thread, _ = await board.board.post(NewThread("Noise", f"zebra {noise(LONGEST - 20)} giraffe"), None, None)
    await board.reply(thread.id, f"lion {noise(LONGEST - 20)} tiger")
    async with board.worker(embedding_model="none"):
        await board.emptied()
        for key in (BOARD_KEYS.doc(thread.id), BOARD_KEYS.reply_doc(thread.id, 1)):
            terms = await board.documents.command("HGET", key, "terms")
            assert isinstance(terms, bytes)
            assert len(set(terms.split())) == documents.TERMS
        assert await board.ids("zebra") == await board.ids("lion") == [thread.id]
        assert await board.ids("giraffe") == await board.ids("tiger") == []


@pytest.mark.parametrize(
    "text",
    [
        noise(LONGEST),
        "zebra " * (LONGEST // 6),
        "zebr" * (LONGEST // 4),
        "z " * (LONGEST // 2),
        "é " * (LONGEST // 2),
        "z," * (LONGEST // 2),
        "z" * LONGEST,
    ],
    ids=["noise", "the word itself", "one token", "letters", "accents", "commas", "one word"],
)
def test_whatever_a_text_is_made_of_a_piece_of_it_is_small_and_an_end_is_made(text: str) -> None:
    excerpt = Excerpt(WantedTerms(QueryTerms("zebra qqqqq z").shown))
    pieces = list(excerpt.look(text, 8_000))
    assert max(pieces) <= 3 * snippets.PIECE_CHARACTERS
    assert 1_000 < sum(pieces) <= 8_000 + 3 * snippets.PIECE_CHARACTERS
    assert text.startswith(excerpt.text.removesuffix("…").strip())


class Watched:
    """Searches that begin and go no further until they are told to."""

    def __init__(self, board: SearchableBoard, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: list[str] = []
        self.go_on = asyncio.Semaphore(0)
        self._board = board
        monkeypatch.setattr(board.searched, "find", self._find)

    async def _find(self, question: SearchRequest, _: object) -> RankedEntities:
        self.begun.append(question.text)
        await self.go_on.acquire()
        return RankedEntities([], "text")

    def search(self, query: str, client: str) -> "asyncio.Task[object]":
        return asyncio.create_task(
            self._board.search.search(SearchQuery(query, threshold=ANYTHING), client, self._board.looked.append)
        )

    async def has_begun(self, *queries: str) -> None:
        async def begun() -> bool:
            return len(self.begun) >= len(queries)

        await until(begun)
        assert sorted(self.begun) == sorted(queries)


async def test_searches_of_one_client_follow_each_other_and_others_do_not_wait_for_them(
    board: SearchableBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(board, monkeypatch)
    tasks = [watched.search(f"greedy {number}", CLIENT) for number in range(10)]
    tasks.append(watched.search("modest", OTHER))
    await watched.has_begun("greedy 0", "modest")
    watched.go_on.release()
    watched.go_on.release()
    await watched.has_begun("greedy 0", "modest", "greedy 1")
    for _ in tasks:
        watched.go_on.release()
    await asyncio.gather(*tasks)
    assert watched.begun[2:] == [f"greedy {number}" for number in range(1, 10)]


async def test_only_so_many_searches_of_a_client_may_wait(
    board: SearchableBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(board, monkeypatch)
    tasks = [watched.search(f"query {number}", CLIENT) for number in range(1 + search.WAITING_SEARCHES)]
    await watched.has_begun("query 0")
    with pytest.raises(Refused) as refused:
        await watched.search("one more", CLIENT)
    assert (refused.value.code, refused.value.retry_after) == ("limit.waiting", 1.0)
    for _ in tasks:
        watched.go_on.release()
    await asyncio.gather(*tasks)


async def test_a_search_is_charged_whatever_becomes_of_it(
    hostile: SearchableBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> None:
        raise StoreUnavailable("the store went away")

    monkeypatch.setattr(Corpus, "read_reachable", fails)
    with pytest.raises(StoreUnavailable):
        await hostile.find("zebra", ANYTHING)
    assert hostile.looked[-1] > 0 or await hostile.search_by_memory()


async def test_a_board_that_nobody_indexes_is_looked_through_as_far_as_the_bound(
    empty_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.text.judged.is_english", passes)
    monkeypatch.setattr(retrieval, "UNINDEXED_CHARACTERS", 3 * retrieval.NOTED_CHARACTERS)
    async with searchable(empty_redis.url) as board:
        threads = [await board.post(f"Thread {n}", f"zebra{n} {noise(LONGEST - 10)}", noted=False) for n in range(10)]
        assert await board.ids("zebra9") == [threads[9]]
        assert await board.ids("zebra0") == []
        assert board.looked[-1] <= 4 * retrieval.NOTED_CHARACTERS
