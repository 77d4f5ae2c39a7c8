"""The interface of embedding models."""

import os
from collections.abc import Sequence
from typing import Protocol

NO_MODEL = "none"
"""The RELAY_EMBEDDING_MODEL of a node that searches by text only."""

MAX_QUERY_CHARACTERS = 2000
"""Characters of a query that are embedded: more than the 256 tokens that the default model reads."""

MAX_THREADS = 4
"""Threads that a model uses at most: small batches gain nothing from more."""


def threads() -> int:
    """How many threads a model uses here: half of the cores, so that acknowledgements have the others."""
    return max(1, min(MAX_THREADS, (os.cpu_count() or 1) // 2))


class ModelUnavailable(Exception):
    """The embedding model cannot be loaded; the message says why. Search goes on by text."""


class Model(Protocol):
    """A model on the CPU. Calls block, and may come from several threads."""

    @property
    def dimension(self) -> int:
        """Number of components of a vector."""
        ...

    @property
    def fingerprint(self) -> str:
        """The same for the same weights everywhere: vectors of one fingerprint can be compared."""
        ...

    def queries(self, texts: Sequence[str]) -> list[bytes]:
        """Unit vectors of queries, float32 in the machine's byte order."""
        ...

    def passages(self, texts: Sequence[str]) -> list[bytes]:
        """Unit vectors of passages; of each, the model reads as much as it can (the default one: 256 tokens)."""
        ...
