"""Runs a model for an event loop: queries in one thread, passages in another of lower priority.

So no query waits for passages, which on a busy machine take many times as long as on an idle one. Only a model that
could not be exported takes one call at a time.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from node.embedding.choice import load
from node.embedding.model import Model, ModelUnavailable

T = TypeVar("T")

PASSAGES_NICENESS = 10
"""Added to the niceness of the process, for the thread that embeds passages: nobody waits for these."""

BATCH_CHARACTERS = 400
"""Characters in one batch, with each text counted as long as the longest. They take about 10 ms of one core, the
longest time that a query waits for others that came with it."""

BATCH_TEXTS = 16
"""Texts in one batch, at most, however short they are."""


class Embedder:
    """The model of RELAY_EMBEDDING_MODEL; `models` is the folder where exports of models are kept."""

    def __init__(self, name: str, models: Path) -> None:
        self._name = name
        self._models = models
        self._queries = ThreadPoolExecutor(1, "queries")
        self._passages = ThreadPoolExecutor(1, "passages", _lower_priority)
        self.model: Model | None = None
        """None until it is loaded."""

    async def load(self) -> Model:
        """Load the model; export it first if that has not been done yet. Raises ModelUnavailable."""
        self.model = model = await _run(self._passages, load, self._name, self._models)
        return model

    async def queries(self, texts: Sequence[str]) -> list[bytes]:
        """Vectors of queries, made in batches of similar length."""
        return await _in_batches(texts, partial(_run, self._queries, self._loaded().queries))

    async def passages(self, texts: Sequence[str]) -> list[bytes]:
        """Vectors of passages, made in small batches."""
        return await _in_batches(texts, partial(_run, self._passages, self._loaded().passages))

    def close(self) -> None:
        """Let the threads end after what they are doing."""
        for thread in self._queries, self._passages:
            thread.shutdown(wait=False, cancel_futures=True)

    def _loaded(self) -> Model:
        if self.model is None:
            raise ModelUnavailable("the embedding model is not loaded yet")
        return self.model


async def _run(thread: ThreadPoolExecutor, call: Callable[..., T], *args: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(thread, call, *args)


async def _in_batches(
    texts: Sequence[str], embed: Callable[[Sequence[str]], Awaitable[Sequence[bytes]]]
) -> list[bytes]:
    """The vectors that `embed` makes of the texts, batch by batch, in the order of the texts."""
    vectors = [b""] * len(texts)
    for batch in batches(texts):
        for index, vector in zip(batch, await embed([texts[index] for index in batch]), strict=True):
            vectors[index] = vector
    return vectors


def batches(texts: Sequence[str]) -> Iterator[list[int]]:
    """The indexes of texts to embed together: of similar length, since the original model pads each to the longest."""
    batch: list[int] = []
    for index in sorted(range(len(texts)), key=lambda index: len(texts[index])):
        longest = len(texts[index])  # so far; those before are padded to it
        if batch and (len(batch) == BATCH_TEXTS or longest * (len(batch) + 1) > BATCH_CHARACTERS):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _lower_priority() -> None:
    if sys.platform == "linux":  # where each thread has its own priority
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + PASSAGES_NICENESS)
