"""The default embedding model, exported once for all tests of this Python environment, and the texts that it embeds."""

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from node.embedding.choice import exported
from node.embedding.embedder import Embedder

MODELS = Path(sys.prefix) / "share" / "relay-node" / "models"


@cache
def exported_model() -> str:
    """The exported model's folder, for RELAY_EMBEDDING_MODEL. The export loads in a quarter of a second."""
    return str(exported("", MODELS))


def embedded_texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that collects the passages embedded from now on."""
    embedded: list[str] = []
    passages = Embedder.passages

    async def noted(embedder: Embedder, texts: Sequence[str]) -> list[bytes]:
        embedded.extend(texts)
        return await passages(embedder, texts)

    monkeypatch.setattr(Embedder, "passages", noted)
    return embedded
