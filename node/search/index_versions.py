"""Versions of the vector index: the one that queries use, the one that is built beside it, and the switch between them.

The vectors of a version can be compared with each other, because one model made them. Each version has keys of its own:
a new one grows beside the one in use and takes its place in one step; the old one is then removed. The records are in
Redis, so that all workers agree.
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
"""Where `auto` changes to HNSW, and where it changes back; the gap keeps it from flapping.

Among 10,000 vectors the nearest take Redis 0.9 ms, and 0.8 with HNSW; among 20,000 1.9 and 0.7 (bench/README.md).
"""

Algorithm = Literal["flat", "hnsw"]

AlgorithmChoice = Literal["auto", "flat", "hnsw"]
"""An algorithm, or `auto`: by the number of passages."""

Scalar = Literal["float32", "float16"]
"""The numbers that vectors are kept as."""


@step
def search_fill(*, built: Key, name: str) -> None:
    """Note that the backlog holds all that the version being built needs."""


@step
def search_switch(*, current: Key, built: Key, backlog: Key, name: str) -> None:
    """Use the version that was built, if it is complete."""


class IndexVersion(msgspec.Struct, frozen=True):
    """One set of vectors."""

    name: str
    model: str
    """What made the vectors (`kind_of`): queries must be embedded by the same."""
    dimension: int
    algorithm: Algorithm
    epoch: int
    """How often an operator had asked for a new index. Vectors of an earlier epoch are not copied."""
    scalar: Scalar = "float32"


def kind_of(model: Model, scalar: Scalar) -> str:
    """The kind of vectors that a model makes. Vectors of one kind can be compared: same weights, same way of cutting
    passages, same numbers. The name has no suffix for `float32`, as in the first release."""
    return f"{model.fingerprint}-{FORMAT}{'' if scalar == 'float32' else f'-{scalar}'}"


def is_made_by(model: Model | None, version: IndexVersion | None) -> bool:
    """Whether the vectors of a version are of the kind that a model makes."""
    return model is not None and version is not None and version.model == kind_of(model, version.scalar)


class IndexVersions:
    """The records of versions. Every method raises StoreUnavailable."""

    def __init__(self, store: Store, keys: SearchKeys) -> None:
        self._store = store
        self._keys = keys

    async def current(self) -> IndexVersion | None:
        """The version that queries use."""
        return (await self.both())[0]

    async def both(self) -> tuple[IndexVersion | None, IndexVersion | None]:
        """The version that queries use, and the one that is being built."""
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
        """The version that a worker with this model wants for this many passages."""
        epoch = int(cast("bytes | None", await self._store.command("GET", self._keys.epoch)) or 0)
        algorithm = choice if choice != "auto" else _automatic(passages, current)
        kind = kind_of(model, scalar)
        name = ids.digest(kind, str(model.dimension), algorithm, str(epoch))[:12]
        return IndexVersion(name, kind, model.dimension, algorithm, epoch, scalar)

    async def use(self, version: IndexVersion) -> None:
        """Let queries use a version from its beginning, since there is no other."""
        await self._write(self._keys.current, version, filled=True)

    async def build(self, version: IndexVersion) -> None:
        """Begin to build a version beside the one in use."""
        await self._write(self._keys.built, version, filled=False)

    async def mark_filled(self, version: IndexVersion) -> None:
        """Note that the backlog holds every entity that a version needs, if that is still being built."""
        await self._store.run(search_fill(built=self._keys.built, name=version.name))

    async def is_filled(self) -> bool:
        """Whether all entities of the version being built have been put into the backlog."""
        return await self._store.command("HGET", self._keys.built, "filled") == b"1"

    async def switch(self, version: IndexVersion) -> bool:
        """Let queries use the version that was built, if it is complete. Returns whether they do."""
        switching = search_switch(
            current=self._keys.current, built=self._keys.built, backlog=self._keys.backlog, name=version.name
        )
        return code_of(await self._store.run(switching)) == "switched"

    async def names(self) -> list[str]:
        """Names of all versions of which vectors may be left."""
        return names_of(await self._store.command("SMEMBERS", self._keys.versions))

    async def forget(self, name: str) -> None:
        """Note that no vectors of a version are left."""
        await self._store.command("SREM", self._keys.versions, name)

    async def reindex(self) -> None:
        """Have the workers reindex every open entity in another version. Returns at once."""
        await self._store.command("INCR", self._keys.epoch)
        await self._store.command("SPUBLISH", self._keys.current, "reindex")

    async def _write(self, key: Key, version: IndexVersion, *, filled: bool) -> None:
        # The name first: whatever is begun is known, and so removed in the end.
        await self._store.command("SADD", self._keys.versions, version.name)
        fields = {**msgspec.structs.asdict(version), "filled": int(filled)}
        await self._store.command("HSET", key, *flat_of(fields))


def _version(reply: object) -> IndexVersion | None:
    fields = texts_of(reply)
    return msgspec.convert(fields, IndexVersion, strict=False) if fields else None


def _automatic(passages: int, current: IndexVersion | None) -> Algorithm:
    threshold = FLAT_BELOW_PASSAGES if current and current.algorithm == "hnsw" else HNSW_FROM_PASSAGES
    return "hnsw" if passages >= threshold else "flat"
