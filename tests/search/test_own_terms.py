"""Where an entity's document is in the same Redis, the step that stores a new entity also stores its terms."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from node.board.model import NewThread
from node.common.own_terms import NO_TERMS, OwnTerms
from node.common.refusal import Refused
from node.config import Limit
from node.search.indexing.documents import NOTED_CHARACTERS
from node.search.ranking import SearchRequest
from node.search.service import Search, SearchTurns
from node.search.store import SearchStore
from node.search.work import SearchWork
from node.share.fair_semaphore import FairSemaphore
from node.sign.signed import UNSIGNED
from node.store import Store
from node.store.search_keys import BOARD_KEYS, TASK_KEYS, SearchKeys
from node.tasks.model import NewTask
from tests.board.board_on import board_on
from tests.search.searching import CLIENT, SearchableBoard, searchable
from tests.support.rates import Limited, Unlimited
from tests.support.servers import RedisServer
from tests.tasks.calls import tasks_on

TITLE, BODY = "Bread at dawn", "Who bakes sourdough in a stone oven?"


class WatchedIndex:
    """The index of a search, which records what it was told about an entity after it was stored."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self.noted: list[str] = []

    def own_terms(self, title: str, body: str) -> OwnTerms:
        return self._search.own_terms(title, body)

    async def note(self, entity_id: str, title: str, body: str) -> None:
        self.noted.append(entity_id)
        await self._search.note(entity_id, title, body)


@pytest_asyncio.fixture
async def engine_board(engine_redis: RedisServer, patience: None) -> AsyncIterator[SearchableBoard]:
    """A board without a worker, on a Redis known to have a query engine."""
    engine_redis.do("FLUSHALL")
    async with searchable(engine_redis.url) as board:
        await board.searched.choice.query_engine()
        yield board


async def post(board: SearchableBoard, index: WatchedIndex, body: str = BODY) -> str:
    posted, _ = await board_on(board.store, board.settings, index=index).post(
        Unlimited(CLIENT), NewThread(TITLE, body), UNSIGNED, None
    )
    return posted.id


async def whole(store: Store, keys: SearchKeys, entity_id: str) -> object:
    """Return whether the document of an entity has the terms of its whole text; None if there is no document."""
    return await store.command("HGET", keys.doc(entity_id), "whole")


async def test_the_step_that_keeps_a_thread_has_it_found(engine_board: SearchableBoard) -> None:
    index = WatchedIndex(engine_board.search)
    thread = await post(engine_board, index)
    assert index.noted == []
    assert await whole(engine_board.store, BOARD_KEYS, thread) == b"1"
    assert await engine_board.ids("sourdough oven") == [thread]


async def test_of_a_long_thread_it_keeps_the_beginning_and_a_worker_the_rest(engine_board: SearchableBoard) -> None:
    index = WatchedIndex(engine_board.search)
    thread = await post(
        engine_board, index, f"{BODY} {'The dough rests for a night. ' * (NOTED_CHARACTERS // 20)} Zebra."
    )
    assert index.noted == []
    assert await whole(engine_board.store, BOARD_KEYS, thread) == b"0"
    assert await engine_board.ids("sourdough oven") == [thread]
    async with engine_board.worker(embedding_model="none"):
        await engine_board.found("zebra", thread)
    assert await whole(engine_board.store, BOARD_KEYS, thread) == b"1"


async def test_the_step_that_keeps_a_contract_has_it_found(engine_board: SearchableBoard) -> None:
    store = engine_board.store
    searched = SearchStore(store, store, next(each for each in engine_board.corpora if each.name == "tasks"))
    await searched.choice.query_engine()
    index = WatchedIndex(Search(searched, SearchTurns()))
    tasks = tasks_on(store, index=index)
    offered, _ = await tasks.create(NewTask("bakery", TITLE, BODY), UNSIGNED, None, CLIENT)
    assert index.noted == []
    assert await whole(store, TASK_KEYS, offered.id) == b"1"
    found = await searched.find(SearchRequest("sourdough oven", 5, 0.7), SearchWork(CLIENT, FairSemaphore(1)))
    assert [each.entity_id for each in found.matches] == [offered.id]


async def test_what_is_refused_leaves_no_terms(engine_board: SearchableBoard) -> None:
    board = board_on(engine_board.store, engine_board.settings, index=engine_board.search)
    once = Limited(CLIENT, Limit(1, 60))
    await board.post(once, NewThread(TITLE, BODY), UNSIGNED, None)
    with pytest.raises(Refused, match=r"limit\.exceeded"):
        await board.post(once, NewThread(TITLE, BODY), UNSIGNED, None)
    assert len([name async for names in engine_board.store.names("doc:*") for name in names]) == 1


async def test_before_it_is_known_whether_redis_has_a_query_engine_a_thread_is_noted(
    engine_board: SearchableBoard,
) -> None:
    engine_board.searched.choice.forget()
    index = WatchedIndex(engine_board.search)
    first, second = await post(engine_board, index), await post(engine_board, index)
    assert index.noted == [first]
    assert {await whole(engine_board.store, BOARD_KEYS, each) for each in (first, second)} == {b"1"}


async def test_a_document_in_another_redis_is_noted(
    shared_redis: RedisServer, engine_redis: RedisServer, patience: None
) -> None:
    for server in (shared_redis, engine_redis):
        server.do("FLUSHALL")
    async with searchable(shared_redis.url, engine_redis.url) as board:
        await board.searched.choice.query_engine()
        index = WatchedIndex(board.search)
        assert board.search.own_terms(TITLE, BODY) == NO_TERMS
        thread = await post(board, index)
        assert index.noted == [thread]
        assert await whole(board.store, BOARD_KEYS, thread) is None
        assert await whole(board.documents, BOARD_KEYS, thread) == b"1"


async def test_workers_that_search_in_memory_are_told(shared_redis: RedisServer, patience: None) -> None:
    shared_redis.do("FLUSHALL")
    async with searchable(shared_redis.url) as board:
        await board.searched.choice.query_engine()
        index = WatchedIndex(board.search)
        thread = await post(board, index)
        assert index.noted == [thread]
        assert await board.store.command("XLEN", BOARD_KEYS.changes) == 1
