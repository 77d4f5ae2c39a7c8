"""Questions to the workers and their answers, and what happens without one."""

import asyncio
import time
from array import array

from node.embedding.model import Model
from node.search.index_versions import IndexVersion, IndexVersions
from node.search.ranking import SearchRequest
from node.search.rpc.client import MAX_WAITING_REQUESTS, QueryVector, WorkerClient, WorkerReply, decode_request, encode
from node.search.rpc.server import search_take
from node.store.search_keys import BOARD_KEYS
from tests.search.searching import SearchableBoard, until

LIVE = IndexVersion("0123456789ab", "a-model", 2, "flat", 0)
VECTOR = array("f", [0.6, 0.8]).tobytes()


async def alive(board: SearchableBoard, service: str = "vectors") -> None:
    """A worker that says it is there and never answers."""
    await IndexVersions(board.store, BOARD_KEYS).use(LIVE)
    await board.store.command("SET", BOARD_KEYS.alive(service), 1, "EX", 60)


async def taken(board: SearchableBoard, service: str = "vectors") -> list[bytes]:
    reply = await board.store.run(search_take(requests=BOARD_KEYS.asks(service), most=MAX_WAITING_REQUESTS))
    assert isinstance(reply, list)
    return [ask for ask in reply[1:] if isinstance(ask, bytes)]


async def test_where_no_worker_is_nobody_waits_for_one(board: SearchableBoard) -> None:
    assert await WorkerClient(board.store, BOARD_KEYS).vector_of("a question") is None
    assert await board.store.command("EXISTS", BOARD_KEYS.asks("vectors")) == 0


async def test_an_answer_goes_to_the_one_who_asked(board: SearchableBoard) -> None:
    await alive(board)
    one, other = WorkerClient(board.store, BOARD_KEYS), WorkerClient(board.store, BOARD_KEYS)
    asked = [asyncio.create_task(workers.vector_of(f"question {n}")) for n, workers in enumerate((one, one, other))]
    asks: list[bytes] = []

    async def all_there() -> bool:
        asks.extend(await taken(board))
        return len(asks) == 3

    await until(all_there, "three questions are asked")
    for raw in reversed(asks):
        ask = decode_request(raw)
        answer = WorkerReply(QueryVector(ask.text, VECTOR))
        await board.store.command("SPUBLISH", ask.channel, ask.id + encode(answer))
    found = await asyncio.gather(*asked)
    assert [vector and vector.version for vector in found] == ["question 0", "question 1", "question 2"]
    assert await one.vector_of("question 1") is found[1], "what was answered is remembered"


async def test_an_answer_that_does_not_come_is_not_waited_for(board: SearchableBoard, no_patience: None) -> None:
    await alive(board)
    began = time.monotonic()
    assert await WorkerClient(board.store, BOARD_KEYS).vector_of("a question") is None
    assert time.monotonic() - began >= 0.3


async def test_a_question_that_nobody_waits_for_any_more_is_not_answered(
    board: SearchableBoard, no_patience: None
) -> None:
    await alive(board)
    assert await WorkerClient(board.store, BOARD_KEYS).vector_of("a question") is None
    assert await board.store.command("EXISTS", BOARD_KEYS.asks("vectors")) == 1
    assert await taken(board) == []


async def test_a_flood_of_questions_is_bounded(board: SearchableBoard, no_patience: None) -> None:
    await alive(board)
    workers = WorkerClient(board.store, BOARD_KEYS)
    found = await asyncio.gather(*(workers.vector_of(f"question {n}") for n in range(MAX_WAITING_REQUESTS + 50)))
    assert set(found) == {None}
    waiting = await board.store.command("LLEN", BOARD_KEYS.asks("vectors"))
    assert isinstance(waiting, int)
    assert waiting <= MAX_WAITING_REQUESTS


async def test_a_cached_vector_needs_no_worker(board: SearchableBoard) -> None:
    await IndexVersions(board.store, BOARD_KEYS).use(LIVE)
    await board.store.command("SET", BOARD_KEYS.query_vector("a question"), b"0123456789ab " + VECTOR, "EX", 60)
    assert await WorkerClient(board.store, BOARD_KEYS).vector_of("  a\nquestion ") == QueryVector(
        "0123456789ab", VECTOR
    )


async def test_a_vector_of_another_generation_is_not_used(board: SearchableBoard) -> None:
    await IndexVersions(board.store, BOARD_KEYS).use(LIVE)
    await board.store.command("SET", BOARD_KEYS.query_vector("a question"), b"ba9876543210 " + VECTOR, "EX", 60)
    assert await WorkerClient(board.store, BOARD_KEYS).vector_of("a question") is None


async def test_many_searches_at_once_are_all_answered(board: SearchableBoard, loaded_model: Model) -> None:
    threads = {await board.post(f"Thread number {n}", f"Its code is ZX{n}Q.", noted=False): n for n in range(40)}
    async with board.worker():
        await board.settled()
        for _ in range(2):
            found = await asyncio.gather(*(board.find(f"code zx{n}q") for n in threads.values()))
            assert [hits.hits[0].thread_id for hits in found] == list(threads)


async def test_two_workers_share_the_work_and_either_can_go(board: SearchableBoard, loaded_model: Model) -> None:
    async with board.worker():
        async with board.worker():
            first = [await board.post(f"Thread number {n}", f"Its code is ZX{n}Q.", noted=False) for n in range(20)]
            await board.settled()
        assert (await board.find("what is the code")).mode == "both"
        later = await board.post("Sourdough schedule", "When should I mix the dough?", noted=False)
        await board.found("prepare the loaf before baking bread", later, 0.6)
        assert (await board.ids("zx7q"))[0] == first[7]


async def test_a_question_for_hits_in_memory_is_answered_by_meaning_only_if_its_vectors_are(
    board: SearchableBoard, loaded_model: Model
) -> None:
    thread = await board.post("Sourdough schedule", "When should I mix the dough?")
    async with board.worker():
        await board.settled()
        if await board.search_by_memory():
            found = await WorkerClient(board.store, BOARD_KEYS).find(SearchRequest("sourdough", 5, 0.7))
            assert found is not None
            assert [match.entity_id for match in found.matches] == [thread]
            assert found.mode == "both"
