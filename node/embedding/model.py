"""The interface of embedding models."""

import os
from collections.abc import Sequence
from typing import Protocol

NO_MODEL = "none"
"""Value of RELAY_EMBEDDING_MODEL for a node that searches by text only."""

MAX_QUERY_CHARACTERS = 2000
"""Maximum number of characters of a query that are embedded: more than the 256 tokens that the default model reads."""

MAX_THREADS = 4
"""Maximum number of threads of a model. Small batches do not gain from more."""


def threads() -> int:
    """Return the number of threads of a model on this machine: half of the cores, to leave the others to the web
    processes."""
    return max(1, min(MAX_THREADS, (os.cpu_count() or 1) // 2))


class ModelUnavailable(Exception):
    """The embedding model cannot be loaded. The message gives the reason. Search continues by text only."""


class Model(Protocol):
    """A model that runs on the CPU. Calls block. Several threads may call a model at the same time."""

    @property
    def dimension(self) -> int:
        """Number of components of a vector."""
        ...

    @property
    def fingerprint(self) -> str:
        """Identifies the weights, on any machine. Vectors of models with the same fingerprint can be compared."""
        ...

    def queries(self, texts: Sequence[str]) -> list[bytes]:
        """Return the unit vectors of queries, as float32 in the machine's byte order.

        A vector may be empty if the model knows no word of the query: all such queries are alike to it.
        """
        ...

    def passages(self, texts: Sequence[str]) -> list[bytes]:
        """Return the unit vectors of passages. The model truncates each passage to its limit (the default model: 256
        tokens)."""
        ...
