"""The in-memory index, compared with the definitions of what it computes."""

import asyncio
import math
from array import array
from collections import Counter
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.search.corpus import OWN, PostRef
from node.search.engines.bm25 import K1, B, Postings
from node.search.engines.memory import MemoryIndex, PostDocument, Vectors
from node.search.index_versions import IndexVersion, IndexVersions
from node.search.indexing import changes
from node.search.indexing.memory_replica import MemoryReplica
from node.search.ranking import SearchRequest
from node.store import Store, StoreUnavailable
from node.store.search_keys import BOARD_KEYS
from node.text.terms import marks_of
from tests.search.searching import searchable
from tests.support.interrupted import Interrupted
from tests.support.servers import RedisServer

TERMS = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=12)
CHANGES = st.lists(st.tuples(st.sampled_from("rstuvwxyz"), st.none() | TERMS), max_size=40)


def bm25(query: list[str], documents: dict[str, list[str]]) -> dict[str, float]:
    """Return Okapi BM25 scores by definition, with RediSearch's constants."""
    average = sum(map(len, documents.values())) / max(1, len(documents))
    scores: dict[str, float] = {}
    for name, terms in documents.items():
        counts = Counter(terms)
        for term in query:
            having = sum(term in other for other in documents.values())
            rarity = math.log(1 + (len(documents) - having + 0.5) / (having + 0.5))
            norm = K1 * (1 - B + B * len(terms) / average)
            if counts[term]:
                scores[name] = scores.get(name, 0) + rarity * counts[term] * (K1 + 1) / (counts[term] + norm)
    return scores


@given(CHANGES, TERMS)
def test_scores_are_those_of_bm25_whatever_came_and_went(
    changes: list[tuple[str, list[str] | None]], query: list[str]
) -> None:
    postings = Postings[str]()
    documents: dict[str, list[str]] = {}
    for name, terms in changes:
        if terms is None:
            postings.remove(name)
            documents.pop(name, None)
        else:
            postings.put(name, terms)
            documents[name] = terms
    wanted = list(dict.fromkeys(query))
    found = dict(postings.best(wanted, 100))
    assert found == pytest.approx(bm25(wanted, documents), rel=1e-4)


def test_of_documents_that_are_replaced_nothing_is_left() -> None:
    postings = Postings[str]()
    for number in range(5000):
        postings.put(f"doc{number % 10}", ["common", f"rare{number}"])
    assert len(postings) == 10
    assert len(postings.best(["common"], 100)) == 10
    assert postings.best(["rare1"], 100) == []
    assert [name for name, _ in postings.best(["rare4999"], 100)] == ["doc9"]


def vector(*numbers: float) -> bytes:
    length = math.hypot(*numbers)
    return array("f", [number / length for number in numbers]).tobytes()


@given(
    st.lists(st.tuples(st.sampled_from("rstuvwxyz"), st.lists(st.integers(0, 7), max_size=4, unique=True)), max_size=30)
)
def test_vectors_that_come_and_go_leave_no_trace(changes: list[tuple[str, list[int]]]) -> None:
    directions = [vector(*(math.sin(n * k + n + 1) for k in range(1, 5))) for n in range(8)]
    vectors = Vectors()
    held: dict[str, list[int]] = {}
    for name, numbers in changes:
        vectors.put(PostRef(name, OWN), {f"0.{n}": directions[n] for n in numbers})
        held[name] = numbers
    query = vector(1, 2, -1, 0.5)
    cosine = {n: float(np.frombuffer(directions[n], "f") @ np.frombuffer(query, "f")) for n in range(8)}
    expected = {name: max(cosine[n] for n in numbers) for name, numbers in held.items() if numbers}
    cosines = vectors.cosines(query)
    found = {near.entity_id: 2 * near.meaning - 1 for near in vectors.nearest(cosines, 100)}
    assert found == pytest.approx(expected, abs=1e-5)
    for near in vectors.nearest(cosines, 100):
        assert vectors.nearest_of(cosines, [PostRef(near.entity_id, OWN)]) == near


def test_an_empty_index_finds_nothing() -> None:
    assert MemoryIndex().find(SearchRequest("anything", 5, 0), vector(1, 0)).matches == []


def test_a_thread_is_found_by_either_and_gone_when_it_is_removed() -> None:
    index = MemoryIndex()
    index.put(PostDocument(PostRef("a", OWN), "bread butter", marks_of(["bread", "butter"]), {"0.0": vector(1, 0)}))
    index.put(PostDocument(PostRef("b", OWN), "jam", marks_of(["jam"]), {"0.0": vector(0, 1), "0.1": vector(1, 1)}))
    assert [match.entity_id for match in index.find(SearchRequest("bread", 5, 0.9), None).matches] == ["a"]
    assert [match.entity_id for match in index.find(SearchRequest("zebra", 5, 0.99), vector(0, 1)).matches] == ["b"]
    index.remove("a")
    index.remove("a")
    assert index.find(SearchRequest("bread", 5, 0.9), vector(1, 0)).matches == []
    assert len(index) == 1


def test_a_reply_comes_and_goes_by_itself() -> None:
    index = MemoryIndex()
    index.put(PostDocument(PostRef("a", OWN), "bread", marks_of(["bread"]), {"0.0": vector(1, 0)}))
    index.put(PostDocument(PostRef("a", 1), "jam", vectors={"1.0": vector(0, 1)}))
    index.put(PostDocument(PostRef("a", 2), "jam jam", vectors={"2.0": vector(0, 1)}))
    index.put_reply_marks("a", marks_of(["jam"]))
    (match,) = index.find(SearchRequest("jam", 5, 0.9), None).matches
    assert (match.entity_id, match.score, match.reply) == ("a", 1.0, 2)
    (match,) = index.find(SearchRequest("zebra", 5, 0.9), vector(0, 1)).matches
    assert match.passage in {"1.0", "2.0"}
    index.put(PostDocument(PostRef("a", 2), "", vectors={}))
    (match,) = index.find(SearchRequest("jam", 5, 0.9), None).matches
    assert match.reply == 1
    index.put(PostDocument(PostRef("a", OWN), "butter", marks_of(["butter"]), {"0.0": vector(1, 1)}))
    assert [match.reply for match in index.find(SearchRequest("jam butter", 5, 0.9), None).matches] == [1], (
        "the replies stay"
    )
    index.remove("a")
    assert index.find(SearchRequest("jam butter", 5, 0.1), vector(1, 1)).matches == []


def test_more_passages_than_there_was_room_for() -> None:
    vectors = Vectors()
    for number in range(3000):
        vectors.put(PostRef(f"t{number}", OWN), {"0.0": vector(1, number)})
    best = vectors.nearest(vectors.cosines(vector(0, 1)), 10)
    assert len(best) == 10
    assert {near.entity_id for near in best} <= {f"t{number}" for number in range(1000, 3000)}


async def test_an_index_that_could_not_be_loaded_anew_is_not_taken_for_loaded(
    empty_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise vectors of one index version would be compared with queries of another one."""
    async with searchable(empty_redis.url) as board:
        thread = await board.post("Sourdough schedule", "When should I mix the dough?")
        replica = MemoryReplica(board.searched)
        await replica.follow()
        await IndexVersions(board.store, BOARD_KEYS).use(IndexVersion("0123456789ab", "a-model", 2, "flat", 0))

        async def fails(*_: object) -> None:
            raise StoreUnavailable("the store went away")

        monkeypatch.setattr("node.search.indexing.memory_replica.read_documents", fails)
        with pytest.raises(StoreUnavailable):
            await replica.follow()
        assert replica.version == ""
        monkeypatch.undo()
        found = (await replica.find(SearchRequest("sourdough", 5, 0.7), None)).matches
        assert [match.entity_id for match in found] == [thread]
        assert replica.version == "0123456789ab"


async def test_who_asked_before_a_worker_was_told_to_stop_is_answered(empty_redis: RedisServer) -> None:
    async with searchable(empty_redis.url) as board:
        thread = await board.post("Sourdough schedule", "When should I mix the dough?")
        replica, stop = MemoryReplica(board.searched), asyncio.Event()
        stop.set()
        await replica.run(stop)
        found = (await replica.find(SearchRequest("sourdough", 5, 0.7), None)).matches
        assert [match.entity_id for match in found] == [thread]
        replica.close()


async def test_changes_that_were_trimmed_away_before_the_first_was_seen_are_noticed(
    empty_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise an index that begins with an empty stream would take the changes left in it for all changes there have
    been.
    """
    async with searchable(empty_redis.url) as board:
        replica = MemoryReplica(board.searched)
        await replica.follow()
        monkeypatch.setattr(changes, "KEPT_CHANGES", 2)
        threads = {await board.post(f"Sourdough {number}", "When should I mix the dough?") for number in range(3)}
        await board.store.command("XTRIM", BOARD_KEYS.changes, "MAXLEN", 2)
        found = (await replica.find(SearchRequest("sourdough", 5, 0.7), None)).matches
        assert {match.entity_id for match in found} == threads


@pytest.mark.parametrize("first", range(3))
@pytest.mark.parametrize("is_new", [True, False])
async def test_changes_that_are_trimmed_away_while_they_are_read_are_noticed(
    empty_redis: RedisServer, monkeypatch: pytest.MonkeyPatch, first: int, is_new: bool
) -> None:
    monkeypatch.setattr(changes, "KEPT_CHANGES", 4)
    async with searchable(empty_redis.url) as board:
        refs = [PostRef(f"thread{number}", OWN) for number in range(6)]
        choice = board.searched.choice
        stream = changes.DocumentChanges(board.store, BOARD_KEYS, choice)
        await stream.publish(refs[:3])
        _, before = await stream.after(changes.BEGINNING)

        async def go_on() -> None:
            await stream.publish(refs[3:])
            await board.store.command("XTRIM", BOARD_KEYS.changes, "MAXLEN", 4)

        interrupted = cast("Store", Interrupted(board.store, go_on, first))
        seen, wanted = (changes.BEGINNING, refs) if is_new else (before[0].entry, refs[1:])
        is_complete, found = await changes.DocumentChanges(interrupted, BOARD_KEYS, choice).after(seen)
        assert not is_complete or (found and [change.ref for change in found] == wanted[: len(found)])
