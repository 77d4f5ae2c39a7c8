"""Generations of the vector index: which one queries use, which one is being built beside it, and the switch.

A generation is a set of vectors that belong together: one model, one algorithm. Its vectors have keys
of their own, so a new one grows beside the one in use and takes its place in one step; the old one is
then forgotten. The records are in Redis, so that any number of workers agree.
"""

from collections.abc import Sequence
from typing import Literal, Protocol, cast

import msgspec

from node.search.passages import FORMAT
from node.store import Store, ids, keys
from node.store.decoding import code_of, fields_of
from node.store.scripts import script

SWITCH = script("search_switch")

HNSW_FROM, FLAT_BELOW = 20_000, 10_000
"""Threads at which `auto` changes to HNSW (DESIGN 9), and back: the gap keeps it from changing to and fro."""

Algorithm = Literal["flat", "hnsw"]


class IndexVersion(msgspec.Struct, frozen=True):
    """One set of vectors."""

    name: str
    model: str
    """What made the vectors (`kind_of`): queries must be embedded by the same."""
    dimension: int
    algorithm: Algorithm
    epoch: int
    """Vectors of an earlier epoch are not taken over."""


class EmbeddingModel(Protocol):
    """What is asked of an embedding model here (`node.text.embed.Model`, which only the worker loads)."""

    @property
    def fingerprint(self) -> str: ...

    @property
    def dimension(self) -> int: ...


def kind_of(model: EmbeddingModel) -> str:
    """Vectors of one kind can be compared: made by the same weights from passages cut in the same way."""
    return f"{model.fingerprint}-{FORMAT}"


class IndexVersions:
    """The records of generations."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def live(self) -> IndexVersion | None:
        """The generation that queries use. Raises StoreUnavailable."""
        return await self._read(keys.SEARCH_LIVE)

    async def target(self) -> IndexVersion | None:
        """The generation that is being built. Raises StoreUnavailable."""
        return await self._read(keys.SEARCH_TARGET)

    async def wanted(
        self, setting: Literal["auto", "flat", "hnsw"], model: EmbeddingModel, live: IndexVersion | None
    ) -> IndexVersion:
        """The generation that a worker with this model would have. Raises StoreUnavailable."""
        epoch = int(cast("bytes | None", await self._store.command("GET", keys.SEARCH_EPOCH)) or 0)
        threads = cast("int", await self._store.command("ZCARD", keys.OPEN_THREADS))
        algorithm = setting if setting != "auto" else _automatic(threads, live)
        kind = kind_of(model)
        name = ids.digest(kind, str(model.dimension), algorithm, str(epoch))[:12]
        return IndexVersion(name, kind, model.dimension, algorithm, epoch)

    async def found(self, generation: IndexVersion) -> None:
        """Use a generation from its beginning, since there is none. Raises StoreUnavailable."""
        await self._write(keys.SEARCH_LIVE, generation, filled=True)

    async def begin(self, generation: IndexVersion) -> None:
        """Start to build a generation beside the one in use. Raises StoreUnavailable."""
        await self._write(keys.SEARCH_TARGET, generation, filled=False)

    async def filled(self, generation: IndexVersion) -> None:
        """All threads that the generation needs are in the backlog. Raises StoreUnavailable."""
        target = await self.target()
        if target == generation:
            await self._store.command("HSET", keys.SEARCH_TARGET, "filled", 1)

    async def is_filled(self) -> bool:
        """Whether the target's threads have all been put into the backlog. Raises StoreUnavailable."""
        return await self._store.command("HGET", keys.SEARCH_TARGET, "filled") == b"1"

    async def switch(self, generation: IndexVersion) -> bool:
        """Use the generation that was built, if it is whole. Raises StoreUnavailable."""
        records = [keys.SEARCH_LIVE, keys.SEARCH_TARGET, keys.SEARCH_BACKLOG]
        return code_of(await self._store.run(SWITCH, records, [generation.name])) == "switched"

    async def known(self) -> list[str]:
        """Names of all generations of which something may be left. Raises StoreUnavailable."""
        names = await self._store.command("SMEMBERS", keys.SEARCH_GENERATIONS)
        return [name.decode() for name in cast("Sequence[bytes]", names)]

    async def forget(self, name: str) -> None:
        """Nothing of a generation is left. Raises StoreUnavailable."""
        await self._store.command("SREM", keys.SEARCH_GENERATIONS, name)

    async def _read(self, key: str) -> IndexVersion | None:
        fields = fields_of(await self._store.command("HGETALL", key))
        if not fields:
            return None
        return msgspec.convert(
            {name.decode(): value.decode() for name, value in fields.items()}, IndexVersion, strict=False
        )

    async def _write(self, key: str, generation: IndexVersion, *, filled: bool) -> None:
        await self._store.command("SADD", keys.SEARCH_GENERATIONS, generation.name)
        fields = {**msgspec.structs.asdict(generation), "filled": int(filled)}
        await self._store.command("HSET", key, *(part for pair in fields.items() for part in pair))


def _automatic(threads: int, live: IndexVersion | None) -> Algorithm:
    if live and live.algorithm == "hnsw":
        return "hnsw" if threads >= FLAT_BELOW else "flat"
    return "hnsw" if threads >= HNSW_FROM else "flat"


async def reindex(store: Store) -> None:
    """Have the workers index every open thread anew, beside the index in use; it takes over when it is whole.

    Returns at once; `left` says how much is to be done. Raises StoreUnavailable.
    """
    await store.command("INCR", keys.SEARCH_EPOCH)
    await store.command("SPUBLISH", keys.SEARCH_LIVE, "reindex")


async def left(store: Store) -> int | None:
    """Threads that are still to be indexed anew; None if nothing is being built. Raises StoreUnavailable."""
    if not await store.command("EXISTS", keys.SEARCH_TARGET):
        return None
    return cast("int", await store.command("ZCARD", keys.SEARCH_BACKLOG))
