"""The documents of search in Redis: the terms of each thread, and the vectors of its passages.

A projection: whatever is here can be made again from the threads. Query engines that index hashes
find it by the prefix of the keys; an index in memory is told by a stream of changes. Who makes
vectors, and when, is in `index_worker`.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import cast

from node.board.engine import EngineChoice
from node.board.generation import Generation
from node.board.search_source import Source
from node.store import Arg, Store, keys
from node.store.scripts import script
from node.text.terms import marks_of, terms_of

PUT = script("doc_put")

NOTED = 5_000
"""Characters of a new thread that the posting request makes terms of, within a millisecond; a worker does the rest."""

WRITES = {"flat": 32, "hnsw": 4}
"""Vectors sent at a time. Together they cost one flush of Redis' log, and hold Redis up for two or three
milliseconds: an insertion takes 0.03 or 0.7 of one.
"""

CHANGES = 10_000
"""Entries kept in the stream of changes; an index in memory that is further behind loads everything anew."""


class Index:
    """Writes documents. `documents` is the Redis that is searched, `store` the one with the threads."""

    def __init__(self, store: Store, documents: Store, engine: EngineChoice) -> None:
        self._store = store
        self._documents = documents
        self._engine = engine

    async def note(self, thread_id: str, title: str, body: str) -> None:
        """Have a new thread found by text at once; for the request that posted it. Raises StoreUnavailable."""
        text = f"{title}\n{body}"
        await self._put([(thread_id, text[:NOTED], 0 if len(text) <= NOTED else -1)], forced=False)

    async def put(self, sources: Sequence[Source], *, forced: bool = False) -> None:
        """Have threads found by their text; the same again changes nothing unless `forced`. Raises StoreUnavailable."""
        await self._put([(source.thread_id, source.text(), source.seq) for source in sources], forced=forced)

    async def remove(self, thread_id: str, generations: Collection[str]) -> None:
        """Have a thread found no more. Raises StoreUnavailable."""
        await self._documents.command("DEL", keys.doc(thread_id))
        for generation in generations:
            await self.remove_vectors(generation, thread_id)
        await self.tell(thread_id)

    async def passages(self, generation: str, thread_id: str) -> set[str]:
        """The passages that have a vector. Raises StoreUnavailable."""
        names = await self._documents.command("SMEMBERS", keys.passages(generation, thread_id))
        return {name.decode() for name in cast("Sequence[bytes]", names)}

    async def vector(self, generation: str, thread_id: str, passage: str) -> bytes | None:
        """The vector of a passage. Raises StoreUnavailable."""
        key = keys.vector(generation, thread_id, passage)
        return cast("bytes | None", await self._documents.command("HGET", key, "vector"))

    async def put_vectors(self, generation: Generation, vectors: Mapping[str, Mapping[str, bytes]]) -> None:
        """Add vectors of passages, by thread and name. Raises StoreUnavailable."""
        # The names first: what is written is always named, so it can be removed whatever happens.
        await asyncio.gather(
            *(
                self._documents.command("SADD", keys.passages(generation.name, thread), *named)
                for thread, named in vectors.items()
                if named
            )
        )
        commands = [
            ("HSET", keys.vector(generation.name, thread, name), "thread", thread, "vector", vector)
            for thread, named in vectors.items()
            for name, vector in named.items()
        ]
        together = WRITES[generation.algorithm]
        for start in range(0, len(commands), together):
            await asyncio.gather(*(self._documents.command(*each) for each in commands[start : start + together]))

    async def remove_vectors(self, generation: str, thread_id: str, names: Collection[str] | None = None) -> None:
        """Remove the vectors of some passages, or of all. Raises StoreUnavailable."""
        gone = await self.passages(generation, thread_id) if names is None else names
        if not gone:
            return
        doomed = [keys.vector(generation, thread_id, name) for name in gone]
        await asyncio.gather(*(self._documents.command("UNLINK", key) for key in doomed))
        await self._documents.command("SREM", keys.passages(generation, thread_id), *gone)

    async def holds(self, thread_id: str, generation: str | None) -> bool:
        """Whether a thread has a document, and vectors in that generation. Raises StoreUnavailable."""
        found = await asyncio.gather(
            self._documents.command("EXISTS", keys.doc(thread_id)),
            *((self._documents.command("EXISTS", keys.passages(generation, thread_id)),) if generation else ()),
        )
        return all(found)

    async def tell(self, *thread_ids: str) -> None:
        """Tell indexes in memory of changes; a query engine sees them by itself. Raises StoreUnavailable."""
        if await self._engine.query_engine():
            return
        stream = keys.SEARCH_CHANGES
        await self._store.commands(("XADD", stream, "MAXLEN", "~", CHANGES, "*", "id", each) for each in thread_ids)
        await self._store.command("SPUBLISH", stream, "")

    async def _put(self, documents: Sequence[tuple[str, str, int]], *, forced: bool) -> None:
        """Write the terms of threads: id, text, and the number of the newest reply that is in it."""
        await self._engine.query_engine()  # so that its index is there before what it indexes
        steps: list[tuple[list[str], list[Arg]]] = []
        for thread_id, text, seq in documents:
            terms = terms_of(text)
            steps.append(([keys.doc(thread_id)], [seq, int(forced), " ".join(terms), marks_of(terms)]))
        await self._documents.runs(PUT, steps)
        await self.tell(*(thread_id for thread_id, _, _ in documents))


async def marks_of_threads(documents: Store, threads: Sequence[str]) -> list[bytes]:
    """The marks of these threads, empty for one without a document. Raises StoreUnavailable."""
    found = await asyncio.gather(*(documents.command("HGET", keys.doc(thread), "marks") for thread in threads))
    return [cast("bytes | None", marks) or b"" for marks in found]
