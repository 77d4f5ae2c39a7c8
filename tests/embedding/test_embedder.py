"""The embedder's threads, with the real model."""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from node.embedding.choice import load
from node.embedding.embedder import BATCH_CHARACTERS, BATCH_TEXTS, PASSAGES_NICENESS, Embedder, batches
from node.embedding.model import Model, ModelUnavailable
from tests.support.models import MODELS, exported_model


@pytest.fixture
def model() -> Model:
    return load(exported_model(), MODELS)


@pytest_asyncio.fixture
async def embedder(model: Model) -> AsyncIterator[Embedder]:
    embedder = Embedder(exported_model(), MODELS)
    assert await embedder.load() is model
    yield embedder
    embedder.close()


async def test_an_embedder_without_its_model_refuses() -> None:
    embedder = Embedder("none", MODELS)
    with pytest.raises(ModelUnavailable):
        await embedder.queries(["anything"])
    embedder.close()


async def test_passages_come_back_in_the_order_they_were_given(embedder: Embedder, model: Model) -> None:
    texts = ["a rather long passage about nothing in particular " * 9, "bread", "the weather in the mountains", "bread"]
    vectors = await embedder.passages(texts)
    assert vectors == [model.passages([text])[0] for text in texts], "whatever a text is embedded with"


async def test_short_queries_are_not_padded_to_the_length_of_a_long_one(
    embedder: Embedder, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches_made: list[list[int]] = []
    queries = model.queries

    def noted(texts: Sequence[str]) -> list[bytes]:
        batches_made.append([len(text) for text in texts])
        return queries(texts)

    monkeypatch.setattr(model, "queries", noted)
    texts = ["sourdough", "x y " * 300, "the weather", "z " * 400, "solar panels"]
    vectors = await embedder.queries(texts)
    assert batches_made == [[9, 11, 12], [800], [1200]]
    assert vectors == [queries([text])[0] for text in texts]


async def test_a_query_does_not_wait_for_passages(
    embedder: Embedder, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()
    answered = threading.Event()
    loop = asyncio.get_running_loop()
    encode = model.passages

    def held(texts: Sequence[str]) -> list[bytes]:
        loop.call_soon_threadsafe(begun.set)
        assert answered.wait(60)
        return encode(texts)

    monkeypatch.setattr(model, "passages", held)
    try:
        burst = asyncio.create_task(embedder.passages(["one of many passages " * 30] * 3))
        await begun.wait()
        await embedder.queries(["a question"])
        assert not burst.done()
        answered.set()
        assert len(await burst) == 3
    finally:
        answered.set()


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own here")
async def test_passages_have_a_lower_priority_than_queries(
    embedder: Embedder, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def niceness(texts: Sequence[str]) -> list[bytes]:
        return [str(os.getpriority(os.PRIO_PROCESS, threading.get_native_id())).encode() for _ in texts]

    monkeypatch.setattr(model, "queries", niceness)
    monkeypatch.setattr(model, "passages", niceness)
    here = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert [int(each) for each in await embedder.queries(["a question"])] == [here]
    assert [int(each) for each in await embedder.passages(["a passage"])] == [min(19, here + PASSAGES_NICENESS)]


@given(st.lists(st.integers(0, 3000)))
def test_batches_are_small_and_leave_nothing_out(lengths: list[int]) -> None:
    made = list(batches(["x" * length for length in lengths]))
    assert sorted(place for batch in made for place in batch) == list(range(len(lengths)))
    for batch in made:
        assert len(batch) <= BATCH_TEXTS
        assert len(batch) == 1 or max(lengths[place] for place in batch) * len(batch) <= BATCH_CHARACTERS
