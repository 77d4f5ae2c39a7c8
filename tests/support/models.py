"""The default embedding model, exported once for all tests of this Python environment."""

import sys
from functools import cache
from pathlib import Path

from node.embedding.choice import exported

MODELS = Path(sys.prefix) / "share" / "relay-node" / "models"


@cache
def exported_model() -> str:
    """The model's folder, for RELAY_EMBEDDING_MODEL; it loads in a quarter of a second."""
    return str(exported("", MODELS))
