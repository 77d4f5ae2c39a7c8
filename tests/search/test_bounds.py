"""What a search may cost: a bounded number of characters, in small pieces, and one search of a client after the
other.
"""

import asyncio
from random import Random
from string import ascii_lowercase

import pytest

from node.board.model import NewThread
from node.common.refusal import Refused
from node.search import retrieval, snippets
from node.search import service as search
from node.search.indexing import documents
from node.search.model import SearchQuery
from node.search.ranking import RankedEntities, SearchRequest
from node.search.snippets import Excerpt, WantedTerms
from node.sign.signed import UNSIGNED
from node.store.search_keys import BOARD_KEYS
from node.text.terms import QueryTerms
from tests.search.searching import ANYTHING, CLIENT, SearchableBoard, searchable
from tests.support.node_under_test import until
from tests.support.rates import Unlimited
from tests.support.servers import RedisServer

LONGEST = 20_000  # characters in a post
OTHER = "203.0.113.8"

random = Random(7)


def passes(_text: str) -> bool:
    """Let every text pass the gate, whose sampling of long texts does not matter here."""
    return True


def noise(characters: int) -> str:
    """Return words of four random letters, which nobody searches for."""
    return " ".join("".join(random.choices(ascii_lowercase, k=4)) for _ in range(characters // 5))


async def test_a_post_of_noise_takes_no_more_room_than_one_of_words(
    board: SearchableBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an index, each new word takes many times its own size."""
    monkeypatch.setattr("node.text.faults.is_english", passes)
    thread, _ = await board.board.post(
        Unlimited(CLIENT), NewThread("Noise", f"zebra {noise(LONGEST - 20)} giraffe"), UNSIGNED, None
    )
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
    """Starts searches that wait until they are told to go on."""

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


async def test_a_board_that_nobody_indexes_is_looked_through_as_far_as_the_bound(
    empty_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.text.faults.is_english", passes)
    monkeypatch.setattr(retrieval, "UNINDEXED_CHARACTERS", 3 * retrieval.NOTED_CHARACTERS)
    async with searchable(empty_redis.url) as board:
        threads = [await board.post(f"Thread {n}", f"zebra{n} {noise(LONGEST - 10)}", noted=False) for n in range(10)]
        assert await board.ids("zebra9") == [threads[9]]
        assert await board.ids("zebra0") == []
        assert board.looked[-1] <= 4 * retrieval.NOTED_CHARACTERS
