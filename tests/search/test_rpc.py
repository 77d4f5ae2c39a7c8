"""Requests to the workers and their answers, and what happens without a worker."""

import asyncio
import threading
from array import array
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest

from node.embedding.model import Model
from node.search.index_versions import IndexVersion, IndexVersions, is_made_by
from node.search.ranking import SearchRequest
from node.search.rpc.client import MAX_WAITING_REQUESTS, QueryVector, WorkerClient, WorkerReply, decode_request, encode
from node.search.rpc.server import REQUESTS_AT_ONCE, WaitingRequests, search_beat
from node.search.service import SearchTurns
from node.share.site import SITE_SHARE
from node.store.search_keys import BOARD_KEYS
from tests.search.searching import SearchableBoard
from tests.support.node_under_test import until
from tests.support.servers import PATIENCE

LIVE = IndexVersion("0123456789ab", "a-model", 2, "flat", 0)
VECTOR = array("f", [0.6, 0.8]).tobytes()


async def test_where_no_worker_is_nobody_waits_for_one(board: SearchableBoard) -> None:
    assert await WorkerClient(board.store, BOARD_KEYS).vector_of("a question") is None


async def test_a_worker_that_has_died_is_not_asked_although_its_sign_of_life_holds(board: SearchableBoard) -> None:
    gone = BOARD_KEYS.requests("vectors", "gone")
    await board.store.run(search_beat(workers=BOARD_KEYS.workers("vectors"), channel=gone, holds=60_000))
    workers = WorkerClient(board.store, BOARD_KEYS)
    assert await asyncio.wait_for(workers.vector_of("a question"), PATIENCE / 2) is None, "nobody was waited for"
    async with board.silent_worker() as listener:
        asked = [asyncio.create_task(workers.vector_of(f"question {n}")) for n in range(4)]
        heard = {decode_request(await listener.next(PATIENCE) or b"").request.text for _ in asked}
        assert heard == {f"question {n}" for n in range(4)}
        for task in asked:
            task.cancel()


async def test_workers_are_asked_in_turn(board: SearchableBoard) -> None:
    workers = WorkerClient(board.store, BOARD_KEYS)
    async with board.silent_worker(name="one") as one, board.silent_worker(name="two") as two:
        asked = [asyncio.create_task(workers.vector_of(f"question {n}")) for n in range(6)]
        for listener in (one, two):
            heard = [await listener.next(PATIENCE) for _ in range(3)]
            assert all(heard)
        for task in asked:
            task.cancel()


async def test_an_answer_goes_to_the_one_who_asked(board: SearchableBoard) -> None:
    await IndexVersions(board.store, BOARD_KEYS).use(LIVE)
    one, other = WorkerClient(board.store, BOARD_KEYS), WorkerClient(board.store, BOARD_KEYS)
    async with board.silent_worker() as listener:
        asked = [asyncio.create_task(workers.vector_of(f"question {n}")) for n, workers in enumerate((one, one, other))]
        heard = [decode_request(await listener.next(PATIENCE) or b"") for _ in asked]
        for version, cached, request in reversed(heard):
            assert (version, cached) == (LIVE.name, b"")
            answer = WorkerReply(QueryVector(request.text, VECTOR))
            await board.store.command("SPUBLISH", request.channel, request.id + encode(answer))
        found = await asyncio.gather(*asked)
    assert [vector and vector.version for vector in found] == ["question 0", "question 1", "question 2"]
    assert await one.vector_of("question 1") is found[1], "what was answered is remembered"


async def test_an_answer_that_does_not_come_is_not_waited_for(board: SearchableBoard, no_patience: None) -> None:
    async with board.silent_worker():
        loop = asyncio.get_running_loop()
        soonest = loop.time() + 0.3
        assert await WorkerClient(board.store, BOARD_KEYS).vector_of("a question") is None
        assert loop.time() >= soonest


async def test_a_request_that_nobody_waits_for_any_more_is_not_answered(
    board: SearchableBoard, no_patience: None
) -> None:
    async with board.silent_worker() as listener:
        assert await WorkerClient(board.store, BOARD_KEYS).vector_of("a question") is None
        await asyncio.wait_for(listener.wait(PATIENCE), PATIENCE)
        waiting = WaitingRequests(listener)
        waiting.hear(0.0)
        assert waiting
        assert waiting.take(0.3) == ([], [])
        assert not waiting


async def test_of_more_requests_than_can_be_answered_in_time_the_oldest_are_told_so(board: SearchableBoard) -> None:
    most = MAX_WAITING_REQUESTS
    async with board.silent_worker() as listener:
        asked: list[asyncio.Task[QueryVector | None]] = []
        waiting = WaitingRequests(listener)
        for begin in (0, most // 2, most):
            workers = WorkerClient(board.store, BOARD_KEYS)
            asked += [asyncio.create_task(workers.vector_of(f"question {begin + n}")) for n in range(most // 2)]
            while len(waiting) < len(asked):
                await listener.wait(PATIENCE)
                waiting.hear(0.0)
        now, late = waiting.take(0.0)
        assert len(late) == most // 2
        assert len(now) == REQUESTS_AT_ONCE
        for task in asked:
            task.cancel()


async def heard(board: SearchableBoard, asked: Sequence[tuple[str, str]]) -> WaitingRequests:
    """Return what a worker has heard, all at once, after each of these sites has sent its query."""
    async with board.silent_worker() as listener:
        waiting, asking = WaitingRequests(listener), list[asyncio.Task[QueryVector | None]]()
        workers = WorkerClient(board.store, BOARD_KEYS)
        for site, query in asked:
            asking.append(asyncio.create_task(workers.vector_of(query, site)))
            while len(waiting) < len(asking):
                await listener.wait(PATIENCE)
                waiting.hear(0.0)
        for task in asking:
            task.cancel()
        return waiting


def taken(waiting: WaitingRequests) -> list[list[str]]:
    """Return the sites of the requests that are answered together, until no request is left."""
    together: list[list[str]] = []
    while waiting:
        together.append([each.request.site for each in waiting.take(0.0)[0]])
    return together


async def test_a_short_query_waits_for_one_long_one_and_not_for_all_of_a_site(board: SearchableBoard) -> None:
    long = [("one", f"{n} " + "long query " * 200) for n in range(16)]
    waiting = await heard(board, [*long, *((f"other {n}", f"a short question {n}") for n in range(3))])
    assert taken(waiting) == [["one"], ["other 0", "other 1", "other 2"], *[["one"]] * 15]


async def test_short_queries_are_answered_together_and_sites_have_as_much_each(board: SearchableBoard) -> None:
    asked = [("one", f"question {n} " + "x" * 80) for n in range(6)] + [("other", f"a question {n}") for n in range(6)]
    first, *rest = taken(await heard(board, asked))
    assert (first.count("one"), first.count("other")) == (2, 6)
    assert rest == [["one"] * 4]


async def test_one_site_does_not_push_out_the_requests_of_others(board: SearchableBoard) -> None:
    asked = [("other", "a question"), *(("one", f"question {n}") for n in range(MAX_WAITING_REQUESTS + 4))]
    _, late = (await heard(board, asked)).take(0.0)
    assert [each.request.site for each in late] == ["one"] * 5


async def test_clients_of_one_site_have_a_share_of_the_searches_of_a_process() -> None:
    turns = SearchTurns()

    async def begins(client: str) -> bool:
        """Return whether a search of that client begins without waiting."""
        try:
            async with asyncio.timeout(0), turns.of(client):
                return True
        except TimeoutError:
            return False

    async with AsyncExitStack() as searching:
        for number in range(SITE_SHARE):
            await searching.enter_async_context(turns.of(f"2001:db8:1:{number:x}::/64"))
        assert not await begins("2001:db8:1:ffff::/64")
        assert await begins("2001:db8:2::/64")
    assert await begins("2001:db8:1:ffff::/64")


async def test_a_cached_vector_needs_no_worker(board: SearchableBoard) -> None:
    await IndexVersions(board.store, BOARD_KEYS).use(LIVE)
    await board.store.command("SET", BOARD_KEYS.query_vector("a question"), b"0123456789ab " + VECTOR, "EX", 60)
    assert await WorkerClient(board.store, BOARD_KEYS).vector_of("  a\nquestion ") == QueryVector(
        "0123456789ab", VECTOR
    )


async def test_a_process_remembers_the_vectors_that_were_used_last(
    board: SearchableBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.search.rpc.client.REMEMBERED_VECTORS", 2)
    await IndexVersions(board.store, BOARD_KEYS).use(LIVE)
    client = WorkerClient(board.store, BOARD_KEYS)
    for query in "abac":
        await board.store.command("SET", BOARD_KEYS.query_vector(query), b"0123456789ab " + VECTOR, "EX", 60)
        assert await client.vector_of(query) is not None
        await board.store.command("DEL", BOARD_KEYS.query_vector(query))
    assert [await client.vector_of(query) is not None for query in "abc"] == [True, False, True]


async def test_a_vector_of_another_version_is_not_used(board: SearchableBoard) -> None:
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


async def test_a_worker_is_asked_as_soon_as_it_has_its_model(
    board: SearchableBoard, loaded_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with board.worker():
        await board.settled()
    looked = threading.Event()

    def looks(model: Model | None, version: IndexVersion | None) -> bool:
        looked.set()
        return is_made_by(model, version)

    def loads(*_: object) -> Model:
        assert looked.wait(PATIENCE), "it has sent its first heartbeats"
        return loaded_model

    monkeypatch.setattr("node.search.rpc.server.is_made_by", looks)
    monkeypatch.setattr("node.search.rpc.server.BEAT_SECONDS", 3600.0)
    monkeypatch.setattr("node.embedding.embedder.load", loads)
    async with board.worker():

        async def answered() -> bool:
            return await WorkerClient(board.store, BOARD_KEYS).vector_of("a question") is not None

        await until(answered)


async def test_a_stop_that_comes_during_a_heartbeat_does_not_wait_for_the_next_one(
    board: SearchableBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, released = asyncio.Event(), asyncio.Event()

    async def beats(*_: object) -> None:
        begun.set()
        await released.wait()

    monkeypatch.setattr("node.search.rpc.server.WorkerServer._beat", beats)
    monkeypatch.setattr("node.search.rpc.server.BEAT_SECONDS", 3600.0)
    async with asyncio.timeout(PATIENCE):
        async with board.worker():
            await begun.wait()
            asyncio.get_running_loop().call_soon(released.set)  # after the worker was told to stop


async def test_a_worker_that_stops_is_asked_no_more(board: SearchableBoard, loaded_model: Model) -> None:
    async with board.worker():
        await board.settled()
        assert await board.store.command("ZCARD", BOARD_KEYS.workers("vectors")) == 1
    assert await board.store.command("ZCARD", BOARD_KEYS.workers("vectors")) == 0
    assert await WorkerClient(board.store, BOARD_KEYS).vector_of("a question") is None


async def test_a_worker_that_stops_answers_those_who_asked_before(
    board: SearchableBoard, loaded_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise they would wait for as long as for a dead worker, and then go on by text."""
    begun, go_on = threading.Event(), threading.Event()
    queries = type(loaded_model).queries

    def held(model: Any, texts: Sequence[str]) -> list[bytes]:
        begun.set()
        assert go_on.wait(PATIENCE)
        return queries(model, texts)

    workers = WorkerClient(board.store, BOARD_KEYS)
    async with AsyncExitStack() as running:
        await running.enter_async_context(board.worker())
        await board.settled()
        monkeypatch.setattr(type(loaded_model), "queries", held)
        (channel,) = cast("list[bytes]", await board.store.command("ZRANGE", BOARD_KEYS.workers("vectors"), 0, -1))
        with await board.store.wakeups.listen(channel.decode()) as listener:
            asked = [asyncio.create_task(workers.vector_of("the first question"))]
            assert await asyncio.to_thread(begun.wait, PATIENCE)
            asked += [asyncio.create_task(workers.vector_of(f"question {n}")) for n in range(3)]
            heard = [await listener.next(PATIENCE) for _ in asked]
            assert all(heard), "all of them are there"
        stopping = asyncio.create_task(running.aclose())
        await asyncio.sleep(0)  # the worker is told to stop here
        go_on.set()
        assert None not in await asyncio.gather(*asked)
        await stopping


async def test_what_is_asked_twice_before_it_is_kept_is_embedded_once(
    board: SearchableBoard, loaded_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded: list[str] = []
    queries = type(loaded_model).queries

    def counted(model: Any, texts: Sequence[str]) -> list[bytes]:
        embedded.extend(texts)
        return queries(model, texts)

    monkeypatch.setattr(type(loaded_model), "queries", counted)
    async with board.worker():
        await board.settled()
        await board.post("Sourdough schedule", "When should I mix the dough?")
        asking = [WorkerClient(board.store, BOARD_KEYS) for _ in range(3)]
        found = [await workers.vector_of("how do I bake a loaf") for workers in asking]
        assert found[0] is not None
        assert found[1:] == found[:1] * 2
    assert embedded.count("how do I bake a loaf") == 1


async def test_a_request_for_hits_in_memory_is_answered_by_meaning_only_if_its_vectors_are(
    board: SearchableBoard, loaded_model: Model
) -> None:
    thread = await board.post("Sourdough schedule", "When should I mix the dough?")
    async with board.worker():
        await board.settled()
        if await board.search_by_memory():
            for _ in range(2):  # the second time, the vector of the query is cached
                found = await WorkerClient(board.store, BOARD_KEYS).find(SearchRequest("sourdough", 5, 0.7))
                assert found is not None
                assert [match.entity_id for match in found.matches] == [thread]
                assert found.mode == "both"
                await until(lambda: board.store.command("EXISTS", BOARD_KEYS.query_vector("sourdough")))
