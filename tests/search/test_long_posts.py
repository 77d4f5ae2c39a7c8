"""A search among posts of the greatest length looks at a bounded number of characters, in small pieces, and is charged
for them.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from node.board.model import NewThread
from node.search import retrieval, snippets
from node.search import service as search
from node.search.corpus import Corpus
from node.search.work import SLICE_CHARACTERS
from node.sign.signed import UNSIGNED
from node.store import StoreUnavailable
from tests.search.conftest import WITH_ENGINE
from tests.search.searching import ANYTHING, CLIENT, SearchableBoard, searchable
from tests.search.test_bounds import LONGEST, noise, passes
from tests.support.other_turns import OtherTurns
from tests.support.rates import Unlimited
from tests.support.servers import RedisServer

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.usefixtures("patience")]

THREADS = 12
MOST_MARKS = retrieval.MAX_MARKS // retrieval.MARKS_A_CHARACTER
ONE_MORE = 2 * snippets.PIECE_CHARACTERS  # characters by which a bound may be exceeded: the size of the current piece


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[WITH_ENGINE, "memory"])
async def hostile(request: pytest.FixtureRequest) -> AsyncIterator[SearchableBoard]:
    """A board of posts of the greatest length, each with the word zebra and otherwise only meaningless words. All tests
    here search the same board.
    """
    with_engine = request.param == "query engine"
    server: RedisServer = request.getfixturevalue("engine_redis" if with_engine else "shared_redis")
    server.do("FLUSHALL")
    async with searchable(server.url) as board:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("node.text.faults.is_english", passes)
            for number in range(THREADS):
                post = NewThread(f"Thread {number}", f"zebra {noise(LONGEST - 10)}")
                thread, _ = await board.board.post(Unlimited(CLIENT), post, UNSIGNED, None)
                await board.reply(thread.id, f"zebra {noise(LONGEST - 10)}")
        async with board.worker(embedding_model="none"):
            await board.emptied()
            yield board


async def test_a_search_looks_at_so_many_characters_and_no_more(
    hostile: SearchableBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a query with a word that occurs nowhere would look at every word of every post."""
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
    assert hostile.looked[-1] <= search.MAX_CHARACTERS_A_HIT + MOST_MARKS + ONE_MORE


async def test_what_many_threads_contain_is_looked_at_as_far_as_the_bound(
    hostile: SearchableBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "MAX_MARKS", 1)
    monkeypatch.setattr(retrieval, "ENTITIES_AT_ONCE", 1)
    monkeypatch.setattr(search, "MAX_CHARACTERS_A_HIT", 0)
    found = await hostile.find("zebra qqqqq", ANYTHING, 50)
    assert {hit.score for hit in found.hits} == {0.5}, "what the engine found has one of the words at least"
    assert hostile.looked[-1] <= LONGEST + THREADS * (search.MIN_CHARACTERS_A_HIT + ONE_MORE)


async def test_others_have_their_turn_while_a_search_looks_at_texts(hostile: SearchableBoard) -> None:
    async with OtherTurns() as others:
        await hostile.find("zebra qqqqq", ANYTHING, 50)
    assert others.count - 1 >= hostile.looked[-1] / (SLICE_CHARACTERS + ONE_MORE)


async def test_a_search_is_charged_whatever_becomes_of_it(
    hostile: SearchableBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> None:
        raise StoreUnavailable("the store went away")

    monkeypatch.setattr(Corpus, "read_reachable", fails)
    charged = len(hostile.looked)
    with pytest.raises(StoreUnavailable):
        await hostile.find("zebra", ANYTHING)
    assert len(hostile.looked) == charged + 1
    assert hostile.looked[-1] > 0 or await hostile.search_by_memory(), "which has read no text until then"
