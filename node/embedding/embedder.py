"""Runs a model for an event loop: queries in one thread, passages in another thread of lower priority.

So no query waits for passages, which take many times as long on a busy machine as on an idle one. The exception is a
model that could not be exported: it handles one call at a time.
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
"""Increase in niceness, over that of the process, of the thread that embeds passages: no client waits for passages."""

BATCH_CHARACTERS = 400
"""Maximum number of characters in one batch, with every text counted as long as the longest one. A batch takes about
10 ms of one core, which is the longest time that a query waits for other queries in the same batch."""

BATCH_TEXTS = 16
"""Maximum number of texts in one batch, however short they are."""


class Embedder:
    """The embedding model of a worker. `name`: RELAY_EMBEDDING_MODEL. `models`: the folder with exports of models."""

    def __init__(self, name: str, models: Path) -> None:
        self._name = name
        self._models = models
        self._queries = ThreadPoolExecutor(1, "queries")
        self._passages = ThreadPoolExecutor(1, "passages", _lower_priority)
        self.model: Model | None = None
        """None until it is loaded."""

    async def load(self) -> Model:
        """Load the model. Export it first if there is no export yet. Raises ModelUnavailable."""
        self.model = model = await _run(self._passages, load, self._name, self._models)
        return model

    async def queries(self, texts: Sequence[str]) -> list[bytes]:
        """Return the vectors of queries, made in batches of texts of similar length. Raises ModelUnavailable."""
        return await _in_batches(texts, partial(_run, self._queries, self._loaded().queries))

    async def passages(self, texts: Sequence[str]) -> list[bytes]:
        """Return the vectors of passages, made in the same way. Raises ModelUnavailable."""
        return await _in_batches(texts, partial(_run, self._passages, self._loaded().passages))

    def close(self) -> None:
        """Let the threads end after their current call."""
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
    """Return the vectors that `embed` makes of the texts, batch by batch, in the order of the texts."""
    vectors = [b""] * len(texts)
    for batch in batches(texts):
        for index, vector in zip(batch, await embed([texts[index] for index in batch]), strict=True):
            vectors[index] = vector
    return vectors


def batches(texts: Sequence[str]) -> Iterator[list[int]]:
    """Yield the indexes of texts to embed in one batch: texts of similar length, because the original model pads all
    texts of a batch to the longest one."""
    batch: list[int] = []
    for index in sorted(range(len(texts)), key=lambda index: len(texts[index])):
        longest = len(texts[index])  # the longest so far, to which the texts before are padded
        if batch and (len(batch) == BATCH_TEXTS or longest * (len(batch) + 1) > BATCH_CHARACTERS):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _lower_priority() -> None:
    if sys.platform == "linux":  # only Linux has a priority for each thread
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + PASSAGES_NICENESS)
