"""The embedding model and its thread, with the real model."""

import asyncio
import math
import os
import threading
from array import array
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from node.text.embed import BATCH_CHARACTERS, BATCH_TEXTS, NICENESS, Embedder, Model, ModelUnavailable, batches, load


def cosine(one: bytes, other: bytes) -> float:
    return sum(a * b for a, b in zip(array("f", one), array("f", other), strict=True))


@pytest_asyncio.fixture
async def embedder(model: Model) -> AsyncIterator[Embedder]:
    embedder = Embedder("")
    assert await embedder.load() is model
    yield embedder
    embedder.close()


def test_vectors_have_length_one_and_the_models_dimension(model: Model) -> None:
    (vector,) = model.queries(["a question"])
    assert len(vector) == 4 * model.dimension == 4 * 384
    assert math.isclose(cosine(vector, vector), 1, abs_tol=1e-5)


def test_like_means_near(model: Model) -> None:
    (query,) = model.queries(["how do I bake bread"])
    near, far = model.passages(["Mix flour, water and yeast, then put the loaf into the oven.", "The proxy is slow."])
    assert cosine(query, near) > 0.4 > cosine(query, far)


def test_a_vector_does_not_depend_on_its_batch(model: Model) -> None:
    alone = model.passages(["short"])[0]
    among = model.passages(["short", "much longer than the other one, so that it must be padded"])[0]
    assert cosine(alone, among) > 0.99999


def test_the_fingerprint_is_that_of_the_weights(model: Model) -> None:
    assert len(model.fingerprint) == 16
    assert load("").fingerprint == model.fingerprint


def test_a_model_that_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"empty.* cannot be loaded: "):
        load(str(tmp_path / "empty"))
    with pytest.raises(ModelUnavailable, match="none"):
        load("none")


async def test_an_embedder_without_its_model_refuses() -> None:
    embedder = Embedder("none")
    with pytest.raises(ModelUnavailable):
        await embedder.queries(["anything"])
    embedder.close()


async def test_passages_come_back_in_the_order_they_were_given(embedder: Embedder, model: Model) -> None:
    texts = ["a rather long passage about nothing in particular " * 9, "bread", "the weather in the mountains", "bread"]
    vectors = await embedder.passages(texts)
    for text, vector in zip(texts, vectors, strict=True):
        assert cosine(vector, model.passages([text])[0]) > 0.99999


async def test_a_query_waits_for_one_batch_of_passages_at_most(embedder: Embedder, model: Model) -> None:
    done: list[str] = []
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    encode = model.passages

    def noted(texts: Sequence[str]) -> list[bytes]:
        loop.call_soon_threadsafe(begun.set)
        vectors = encode(texts)
        done.append("passages")
        return vectors

    model.passages = noted
    try:
        burst = asyncio.create_task(embedder.passages(["one of many passages " * 30] * 20))
        await begun.wait()
        await embedder.queries(["a question"])
        done.append("query")
        await burst
    finally:
        del model.passages
    assert done.index("query") <= 2
    assert done.count("passages") == 20


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads have no priority of their own here")
async def test_the_models_thread_is_nicer_than_the_rest(embedder: Embedder, model: Model) -> None:
    seen: list[int] = []
    encode = model.queries

    def noted(texts: Sequence[str]) -> list[bytes]:
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return encode(texts)

    model.queries = noted
    try:
        await embedder.queries(["a question"])
    finally:
        del model.queries
    here = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert seen == [min(19, here + NICENESS)]


@given(st.lists(st.integers(0, 3000)))
def test_batches_are_small_and_leave_nothing_out(lengths: list[int]) -> None:
    made = list(batches(["x" * length for length in lengths]))
    assert sorted(place for batch in made for place in batch) == list(range(len(lengths)))
    for batch in made:
        assert len(batch) <= BATCH_TEXTS
        assert len(batch) == 1 or max(lengths[place] for place in batch) * len(batch) <= BATCH_CHARACTERS
