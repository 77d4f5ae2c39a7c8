"""Texts and vectors for the search benchmarks, taken from the docstrings of the installed Python packages.

A docstring's first line says what its body is about, so it is a query whose answer is known. Nothing is
downloaded. The texts depend on the environment; their number is reported with the figures.
"""

import ast
import random
import re
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from node.embedding.embedder import batches
from node.embedding.model import Model

Matrix = NDArray[np.float32]

PACKAGES = ("numpy", "scipy", "sklearn", "networkx", "matplotlib", "sympy", "transformers", "torch", "hypothesis")
"""Well-documented packages that sentence-transformers or the tests require, used beside the standard library."""

EMBEDDED_AT_ONCE = 10_000
"""Number of texts whose vectors are cached in one file."""

SUMMARY = range(20, 161)
BODY = range(120, 4001)
"""Accepted lengths of summaries and bodies, in characters."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n\n+")
_SEED = 7


class Known(NamedTuple):
    """A text and the query that should find it."""

    query: str
    body: str


def known_items(most: int) -> list[Known]:
    """Return up to `most` docstrings that have a summary and a body, in a reproducible random order."""
    items = sorted(_docstrings())
    random.Random(_SEED).shuffle(items)
    return items[:most]


def sentences(most: int) -> list[str]:
    """Return up to `most` distinct sentences of 40 to 200 characters: short texts for large indexes."""
    found = {
        " ".join(sentence.split())
        for item in _docstrings()
        for sentence in (item.query, *_SENTENCE.split(item.body))
        if 40 <= len(sentence) <= 200
    }
    ordered = sorted(found)
    random.Random(_SEED).shuffle(ordered)
    return ordered[:most]


def vectors(model: Model, texts: list[str]) -> Matrix:
    """Return the vectors of passages. They are cached in the temporary directory: 100,000 take ten minutes or more."""
    parts = [_part(model, texts[start : start + EMBEDDED_AT_ONCE]) for start in range(0, len(texts), EMBEDDED_AT_ONCE)]
    return np.concatenate(parts)


def _part(model: Model, texts: list[str]) -> Matrix:
    name = blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    kept = Path(tempfile.gettempdir()) / f"relay-bench-{model.fingerprint}-{name}.npy"
    if kept.exists():
        return np.load(kept)
    print(f"embedding {len(texts)} texts", file=sys.stderr, flush=True)
    made = np.zeros((len(texts), model.dimension), np.float32)
    for batch in batches(texts):
        for place, vector in zip(batch, model.passages([texts[place] for place in batch]), strict=True):
            made[place] = np.frombuffer(vector, np.float32)
    np.save(kept, made)
    return made


@cache
def _docstrings() -> frozenset[Known]:
    return frozenset(_read())


def _read() -> Iterator[Known]:
    paths = sysconfig.get_paths()
    for root in (Path(paths["stdlib"]), *(Path(paths["purelib"]) / package for package in PACKAGES)):
        for path in root.rglob("*.py"):
            below = path.relative_to(root).parts
            if "site-packages" in below or any(part.startswith("test") for part in below):
                continue
            try:
                tree = ast.parse(path.read_text(encoding="utf-8"))
            except (SyntaxError, UnicodeDecodeError, ValueError):
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                    summary, _, body = (ast.get_docstring(node) or "").partition("\n\n")
                    query = " ".join(summary.split())
                    if len(query) in SUMMARY and len(body.strip()) in BODY and len(query.split()) >= 4:
                        yield Known(query, body.strip())
