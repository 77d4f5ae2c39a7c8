"""Both engines on the same board: the query engine and a worker's memory give the same answers."""

from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio

from node.embedding.model import Model
from node.search.model import Hit
from node.search.ranking import SearchRequest
from node.search.work import SearchWork
from node.share.fair_semaphore import FairSemaphore
from tests.search.relevance import EXACT, NOTHING, PARAPHRASES, THREADS
from tests.search.searching import ANYTHING, CLIENT, SearchableBoard, searchable
from tests.support.servers import RedisServer

QUERIES = [query.text for query in (*PARAPHRASES, *EXACT, *NOTHING)]


class LabelledBoard:
    """A board with the labelled threads."""

    def __init__(self, board: SearchableBoard, names: dict[str, str]) -> None:
        self.board = board
        self.names = names

    @classmethod
    async def of(cls, board: SearchableBoard) -> "LabelledBoard":
        return cls(board, {await board.post(*thread): key for key, thread in THREADS.items()})

    async def found(self, query: str, threshold: float) -> list[Hit]:
        found = await self.board.find(query, threshold, len(THREADS))
        assert found.mode == "both"
        return [msgspec.structs.replace(hit, thread_id=self.names[hit.thread_id], url="") for hit in found.hits]

    async def ranked_among(self, query: str, among: list[str]) -> dict[str, float]:
        """Return the scores of those of these threads that match at all."""
        entities = [entity for entity, key in self.names.items() if key in among]
        request = SearchRequest(query, len(THREADS), ANYTHING, entities)
        ranked = await self.board.searched.find(request, SearchWork(CLIENT, FairSemaphore(1)))
        assert ranked.mode == "both"
        return {self.names[each.entity_id]: each.score for each in ranked.matches}


@pytest_asyncio.fixture
async def both(
    engine_redis: RedisServer, shared_redis: RedisServer, loaded_model: Model, patience: None
) -> AsyncIterator[tuple[LabelledBoard, LabelledBoard]]:
    for server in (engine_redis, shared_redis):
        server.do("FLUSHALL")
    async with searchable(engine_redis.url) as engine, searchable(shared_redis.url) as memory:
        boards = (await LabelledBoard.of(engine), await LabelledBoard.of(memory))
        async with engine.worker(), memory.worker():
            await engine.settled()
            await memory.settled()
            yield boards


async def test_the_engines_agree_on_hits_scores_and_order(both: tuple[LabelledBoard, LabelledBoard]) -> None:
    """Scores agree only approximately, because a vector depends slightly on the texts embedded with it."""
    engine, memory = both
    for query in QUERIES:
        for threshold in (ANYTHING, 0.7):
            one, other = await engine.found(query, threshold), await memory.found(query, threshold)
            assert scores(one) == pytest.approx(scores(other), abs=1e-4), query
            assert [(hit.thread_id, hit.mode, hit.snippet) for hit in one[:3]] == [
                (hit.thread_id, hit.mode, hit.snippet) for hit in other[:3]
            ], query


async def test_the_engines_agree_on_the_matches_among_some_entities(both: tuple[LabelledBoard, LabelledBoard]) -> None:
    """The scores are the same as among all entities."""
    among = sorted(THREADS)[::3]
    for query in QUERIES:
        one, other = [await board.ranked_among(query, among) for board in both]
        assert one == pytest.approx(other, abs=1e-4), query
        whole = scores(await both[0].found(query, ANYTHING))
        assert one == pytest.approx({key: whole[key] for key in among}, abs=1e-4), query
    assert await both[0].ranked_among(QUERIES[0], []) == {}


def scores(hits: list[Hit]) -> dict[str, float]:
    return {hit.thread_id: hit.score for hit in hits}
