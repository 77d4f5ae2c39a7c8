"""Versions of the vector index: the one that queries use, the one that is built beside it, and the switch between them.

The vectors of a version can be compared with each other: one model made them. Each version has keys of its own, so a
new one grows beside the one in use, takes its place in one step, and the old one is then removed. The records are in
Redis, so that all workers agree. Keys and log entries call a version a generation.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, cast

import msgspec

from node.search.passages import FORMAT
from node.store import Store, ids, keys
from node.store.decoding import code_of, fields_of
from node.store.steps import Key, step

if TYPE_CHECKING:  # only the worker has a model, and what a model needs
    from node.embedding.model import Model

HNSW_FROM_THREADS, FLAT_BELOW_THREADS = 20_000, 10_000
"""Where `auto` changes to HNSW (DESIGN 9), and where back: the gap keeps it from changing to and fro."""

Algorithm = Literal["flat", "hnsw"]


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


def kind_of(model: "Model") -> str:
    """Vectors of one kind can be compared: made by the same weights from passages cut in the same way."""
    return f"{model.fingerprint}-{FORMAT}"


def is_made_by(model: "Model | None", version: IndexVersion | None) -> bool:
    """Whether the vectors of a version are of the kind that a model makes."""
    return model is not None and version is not None and version.model == kind_of(model)


class IndexVersions:
    """The records of versions. Every method raises StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def current(self) -> IndexVersion | None:
        """The version that queries use."""
        return (await self.both())[0]

    async def both(self) -> tuple[IndexVersion | None, IndexVersion | None]:
        """The version that queries use, and the one that is being built."""
        current, built = await self._store.commands([("HGETALL", keys.SEARCH_LIVE), ("HGETALL", keys.SEARCH_TARGET)])
        return _version(current), _version(built)

    async def wanted(
        self,
        setting: Literal["auto", "flat", "hnsw"],
        model: "Model",
        current: IndexVersion | None,
        open_threads: int,
    ) -> IndexVersion:
        """The version that a worker with this model would have for so many threads."""
        epoch = int(cast("bytes | None", await self._store.command("GET", keys.SEARCH_EPOCH)) or 0)
        algorithm = setting if setting != "auto" else _automatic(open_threads, current)
        kind = kind_of(model)
        name = ids.digest(kind, str(model.dimension), algorithm, str(epoch))[:12]
        return IndexVersion(name, kind, model.dimension, algorithm, epoch)

    async def use(self, version: IndexVersion) -> None:
        """Let queries use a version from its beginning, since there is no other."""
        await self._write(keys.SEARCH_LIVE, version, filled=True)

    async def build(self, version: IndexVersion) -> None:
        """Begin to build a version beside the one in use."""
        await self._write(keys.SEARCH_TARGET, version, filled=False)

    async def mark_filled(self, version: IndexVersion) -> None:
        """Note that the backlog holds every thread that the version being built needs."""
        if (await self.both())[1] == version:
            await self._store.command("HSET", keys.SEARCH_TARGET, "filled", 1)

    async def is_filled(self) -> bool:
        """Whether all threads of the version being built have been put into the backlog."""
        return await self._store.command("HGET", keys.SEARCH_TARGET, "filled") == b"1"

    async def switch(self, version: IndexVersion) -> bool:
        """Let queries use the version that was built, if it is complete. Returns whether they do."""
        switching = search_switch(
            current=keys.SEARCH_LIVE, built=keys.SEARCH_TARGET, backlog=keys.SEARCH_BACKLOG, name=version.name
        )
        return code_of(await self._store.run(switching)) == "switched"

    async def names(self) -> list[str]:
        """Names of all versions of which vectors may be left."""
        names = await self._store.command("SMEMBERS", keys.SEARCH_GENERATIONS)
        return [name.decode() for name in cast("Sequence[bytes]", names)]

    async def forget(self, name: str) -> None:
        """Note that no vectors of a version are left."""
        await self._store.command("SREM", keys.SEARCH_GENERATIONS, name)

    async def reindex(self) -> None:
        """Have the workers index every open thread anew in another version. Returns at once."""
        await self._store.command("INCR", keys.SEARCH_EPOCH)
        await self._store.command("SPUBLISH", keys.SEARCH_LIVE, "reindex")

    async def left(self) -> int | None:
        """How many threads the version being built still lacks; None if none is being built."""
        is_building, threads = await self._store.commands(
            [("EXISTS", keys.SEARCH_TARGET), ("ZCARD", keys.SEARCH_BACKLOG)]
        )
        return cast("int", threads) if is_building else None

    async def _write(self, key: Key, version: IndexVersion, *, filled: bool) -> None:
        # The name first: whatever is begun is known, and so removed in the end.
        await self._store.command("SADD", keys.SEARCH_GENERATIONS, version.name)
        fields = {**msgspec.structs.asdict(version), "filled": int(filled)}
        await self._store.command("HSET", key, *(part for pair in fields.items() for part in pair))


def _version(reply: object) -> IndexVersion | None:
    fields = {name.decode(): value.decode() for name, value in fields_of(reply).items()}
    return msgspec.convert(fields, IndexVersion, strict=False) if fields else None


def _automatic(threads: int, current: IndexVersion | None) -> Algorithm:
    threshold = FLAT_BELOW_THREADS if current and current.algorithm == "hnsw" else HNSW_FROM_THREADS
    return "hnsw" if threads >= threshold else "flat"
