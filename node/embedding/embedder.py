"""A model for an event loop: in one thread of low priority, where queries go before the passages that wait.

A query waits for one small batch of passages at most.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from node.embedding.choice import load
from node.embedding.model import Model, ModelUnavailable

NICENESS = 10
"""Of the model's thread, added to the process': acknowledgements come first on a busy machine."""

BATCH_CHARACTERS = 400
"""Characters in one batch, each text counted as long as the longest. Some 10 ms of one core: the longest that a query
waits for a batch of passages, or for longer queries that came with it."""

BATCH_TEXTS = 16


class Embedder:
    """The model of RELAY_EMBEDDING_MODEL; `models` is the folder where exports of models are kept."""

    def __init__(self, name: str, models: Path) -> None:
        self._name = name
        self._models = models
        self._thread = ThreadPoolExecutor(1, "embedding", _lower_priority)
        self._turn = asyncio.Lock()
        self.model: Model | None = None
        """None until it is loaded."""

    async def load(self) -> Model:
        """Load the model, after exporting it if that was not done before. Raises ModelUnavailable."""
        self.model = model = await self._run(load, self._name, self._models)
        return model

    async def queries(self, texts: Sequence[str]) -> list[bytes]:
        """Vectors of queries, in batches of like length, each after at most one batch of passages."""
        model = self._loaded()
        return await _in_batches(texts, lambda batch: self._run(model.queries, batch))

    async def passages(self, texts: Sequence[str]) -> list[bytes]:
        """Vectors of passages, in small batches between which queries have their turn."""
        model = self._loaded()

        async def make(batch: Sequence[str]) -> list[bytes]:
            async with self._turn:
                return await self._run(model.passages, batch)

        return await _in_batches(texts, make)

    def close(self) -> None:
        """Let the thread end after what it is doing."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self, call: Any, *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)

    def _loaded(self) -> Model:
        if self.model is None:
            raise ModelUnavailable("the embedding model is not loaded yet")
        return self.model


async def _in_batches(texts: Sequence[str], make: Callable[[Sequence[str]], Awaitable[Sequence[bytes]]]) -> list[bytes]:
    """What `make` makes of the texts, batch by batch, in their order."""
    vectors = [b""] * len(texts)
    for batch in batches(texts):
        for place, vector in zip(batch, await make([texts[place] for place in batch]), strict=True):
            vectors[place] = vector
    return vectors


def batches(texts: Sequence[str]) -> Iterator[list[int]]:
    """The places of texts to embed together: of like length, since each is padded to the longest."""
    batch: list[int] = []
    for place in sorted(range(len(texts)), key=lambda place: len(texts[place])):
        longest = len(texts[place])  # so far, and those before are padded to it
        if batch and (len(batch) == BATCH_TEXTS or longest * (len(batch) + 1) > BATCH_CHARACTERS):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def _lower_priority() -> None:
    if sys.platform == "linux":  # where a thread has a priority of its own
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + NICENESS)
