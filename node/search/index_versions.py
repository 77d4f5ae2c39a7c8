"""Versions of the vector index: the version that queries use, the one being built beside it, and the switch to it.

The vectors of a version can be compared with each other, because one model made them. Each version has its own keys: a
new version is built beside the one in use and replaces it in one step; then the old version is removed. The records of
versions are in Redis, so that all workers agree.
"""

from typing import Literal, cast

import msgspec

from node.embedding.model import Model
from node.search.passages import FORMAT
from node.store import Store, ids
from node.store.decoding import code_of, flat_of, names_of, texts_of
from node.store.search_keys import SearchKeys
from node.store.steps import Key, step

HNSW_FROM_PASSAGES, FLAT_BELOW_PASSAGES = 10_000, 5_000
"""Numbers of passages at which `auto` changes to HNSW, and below which it changes back. The gap prevents flapping.

To find the nearest of 10,000 vectors, Redis takes 0.9 ms (flat) or 0.8 ms (HNSW); of 20,000, 1.9 or 0.7 ms
(bench/README.md).
"""

Algorithm = Literal["flat", "hnsw"]

AlgorithmChoice = Literal["auto", "flat", "hnsw"]
"""An algorithm, or `auto` to choose one by the number of passages."""

Scalar = Literal["float32", "float16"]
"""Type of the numbers in stored vectors."""


@step
def search_fill(*, built: Key, name: str) -> None:
    """Record that the backlog holds every entity that the version being built needs."""


@step
def search_switch(*, current: Key, built: Key, backlog: Key, name: str) -> None:
    """Make queries use the version that was built, if it is complete."""


class IndexVersion(msgspec.Struct, frozen=True):
    """One version of the vector index."""

    name: str
    model: str
    """The kind of the vectors (`kind_of`). Queries must be embedded as the same kind."""
    dimension: int
    algorithm: Algorithm
    epoch: int
    """How many times an operator had asked for a new index. Vectors of an earlier epoch are not copied."""
    scalar: Scalar = "float32"


def kind_of(model: Model, scalar: Scalar) -> str:
    """Return the kind of vectors that a model makes. Vectors of one kind can be compared with each other: they have the
    same model weights, passage format and type of numbers. The kind has no suffix for `float32`, so that it equals the
    kind recorded by the first release."""
    return f"{model.fingerprint}-{FORMAT}{'' if scalar == 'float32' else f'-{scalar}'}"


def is_made_by(model: Model | None, version: IndexVersion | None) -> bool:
    """Return whether the vectors of a version are of the kind that the model makes."""
    return model is not None and version is not None and version.model == kind_of(model, version.scalar)


class IndexVersions:
    """The records of versions in Redis. Every method raises StoreUnavailable."""

    def __init__(self, store: Store, keys: SearchKeys) -> None:
        self._store = store
        self._keys = keys

    async def current(self) -> IndexVersion | None:
        """Return the version that queries use."""
        return (await self.both())[0]

    async def both(self) -> tuple[IndexVersion | None, IndexVersion | None]:
        """Return the version that queries use and the version that is being built."""
        current, built = await self._store.run_all([("HGETALL", self._keys.current), ("HGETALL", self._keys.built)])
        return _version(current), _version(built)

    async def wanted(
        self,
        choice: AlgorithmChoice,
        model: Model,
        current: IndexVersion | None,
        passages: int,
        scalar: Scalar,
    ) -> IndexVersion:
        """Return the version that a worker with this model wants for this number of passages."""
        epoch = int(cast("bytes | None", await self._store.command("GET", self._keys.epoch)) or 0)
        algorithm = choice if choice != "auto" else _automatic(passages, current)
        kind = kind_of(model, scalar)
        name = ids.digest(kind, str(model.dimension), algorithm, str(epoch))[:12]
        return IndexVersion(name, kind, model.dimension, algorithm, epoch, scalar)

    async def use(self, version: IndexVersion) -> None:
        """Make queries use a version that is still empty, because there is no other version."""
        await self._write(self._keys.current, version, filled=True)

    async def build(self, version: IndexVersion) -> None:
        """Begin to build a version beside the version in use."""
        await self._write(self._keys.built, version, filled=False)

    async def mark_filled(self, version: IndexVersion) -> None:
        """Record that the backlog holds every entity that the version needs, if it is still being built."""
        await self._store.run(search_fill(built=self._keys.built, name=version.name))

    async def is_filled(self) -> bool:
        """Return whether all entities that the version being built needs have been put into the backlog."""
        return await self._store.command("HGET", self._keys.built, "filled") == b"1"

    async def switch(self, version: IndexVersion) -> bool:
        """Make queries use the version that was built, if it is complete. Return whether the switch happened."""
        switching = search_switch(
            current=self._keys.current, built=self._keys.built, backlog=self._keys.backlog, name=version.name
        )
        return code_of(await self._store.run(switching)) == "switched"

    async def names(self) -> list[str]:
        """Return the names of all versions that may still have vectors."""
        return names_of(await self._store.command("SMEMBERS", self._keys.versions))

    async def forget(self, name: str) -> None:
        """Record that a version has no vectors left."""
        await self._store.command("SREM", self._keys.versions, name)

    async def reindex(self) -> None:
        """Have the workers index every open entity again, in a new version. Return at once."""
        await self._store.command("INCR", self._keys.epoch)
        await self._store.command("SPUBLISH", self._keys.current, "reindex")

    async def _write(self, key: Key, version: IndexVersion, *, filled: bool) -> None:
        # The name is written first, so that a version that was begun is always known and finally removed.
        await self._store.command("SADD", self._keys.versions, version.name)
        fields = {**msgspec.structs.asdict(version), "filled": int(filled)}
        await self._store.command("HSET", key, *flat_of(fields))


def _version(reply: object) -> IndexVersion | None:
    fields = texts_of(reply)
    return msgspec.convert(fields, IndexVersion, strict=False) if fields else None


def _automatic(passages: int, current: IndexVersion | None) -> Algorithm:
    threshold = FLAT_BELOW_PASSAGES if current and current.algorithm == "hnsw" else HNSW_FROM_PASSAGES
    return "hnsw" if passages >= threshold else "flat"
