"""Keeps the search index what it should be: there, of the wanted kind, and complete.

It looks when a worker starts, when Redis comes back, when an operator asks, and every few seconds. What
is missing goes into the backlog; a new kind of vectors is built beside the one in use, which goes on
answering; then queries are switched over and the old one is forgotten.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Literal, cast

import structlog

from node.search.engines.choice import EngineChoice
from node.search.engines.redisearch import QueryEngine
from node.search.generations import IndexVersion, IndexVersions, kind_of
from node.search.indexing.documents import Documents
from node.search.indexing.queue import Queue
from node.search.worker_loop import unless, until_news
from node.store import CommandFailed, Store, StoreUnavailable, keys
from node.text.embed import Embedder

log = structlog.get_logger()

LOOK = 10.0
"""Seconds between looks."""

SWEEP = 60.0
"""Seconds between two comparisons of all threads with all documents, at least."""

GRACE = 30.0
"""Seconds for which a generation outlives its use: queries may be under way, and workers may not have noticed."""

CHUNK = 500
"""Threads looked at together."""


class Reconciler:
    """One worker's part in it; more of them come to the same."""

    def __init__(
        self,
        store: Store,
        documents: Store,
        choice: EngineChoice,
        index: Documents,
        queue: Queue,
        embedder: Embedder,
        algorithm: Literal["auto", "flat", "hnsw"],
    ) -> None:
        self._store = store
        self._documents = documents
        self._index = index
        self._queue = queue
        self._embedder = embedder
        self._algorithm: Literal["auto", "flat", "hnsw"] = algorithm
        self._choice = choice
        self._generations = IndexVersions(store)
        self._first_look = True
        self._swept = 0.0
        self._swept_for: IndexVersion | None = None
        self._eras: tuple[int, int] | None = None
        self._retired: dict[str, float] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Look after the index until `stop` is set."""
        with await self._store.wakeups.listen(keys.SEARCH_LIVE) as listener:
            while not stop.is_set():
                try:
                    await unless(stop, self.look())
                except StoreUnavailable:
                    pass
                except CommandFailed:
                    self._choice.forget()
                    log.exception("search index not looked after")
                await until_news(listener, LOOK, stop)

    async def look_soon(self) -> None:
        """Have this worker look now, and all others too."""
        with suppress(StoreUnavailable):
            await self._store.command("SPUBLISH", keys.SEARCH_LIVE, "")

    async def look(self) -> None:
        """See that everything is as it should be, or on its way there. Raises StoreUnavailable, CommandFailed."""
        engine = await self._choice.query_engine()
        live, target = await self._settled()
        if engine:
            await engine.ensure_terms()
            for generation in filter(None, (live, target)):
                await engine.ensure_vectors(generation)
        if target:
            await self._build(target)
        usable = live if self._embedder.model else None
        if await self._is_suspect(engine, usable):
            await self._sweep(usable)
        await self._forget_old(engine)

    async def _settled(self) -> tuple[IndexVersion | None, IndexVersion | None]:
        """The generation in use and the one being built, after this worker has said what it wants."""
        live, target = await asyncio.gather(self._generations.live(), self._generations.target())
        model = self._embedder.model
        if model is None:
            return live, target
        wanted = await self._generations.wanted(self._algorithm, model, live)
        if live is None:
            await self._generations.found(wanted)
            live = wanted
        # Another model is wanted only by a worker that starts with it: else two kinds of workers would take turns.
        elif wanted not in (live, target) and (self._first_look or live.model == wanted.model):
            log.info("search index is built anew", generation=wanted.name, algorithm=wanted.algorithm)
            await self._generations.begin(wanted)
            target = wanted
        self._first_look = False
        return live, target

    async def _build(self, target: IndexVersion) -> None:
        """Have the target's vectors made, and use it once they are."""
        model = self._embedder.model
        if model is None or target.model != kind_of(model):
            return
        if not await self._generations.is_filled():
            async for threads in _members(self._store, keys.OPEN_THREADS):
                await self._queue.anew(threads)
            await self._generations.filled(target)
        if await self._generations.switch(target):
            log.info("search index switched", generation=target.name)

    async def _is_suspect(self, engine: QueryEngine | None, live: IndexVersion | None) -> bool:
        """Whether documents may be missing: after a start, a reconnection or a switch, or if the engine has too few."""
        now = time.monotonic()
        eras = (self._store.stats.reconnects, self._documents.stats.reconnects)
        if self._eras != eras or self._swept_for != live:
            self._eras = eras
            return True
        if engine is None or now - self._swept < SWEEP or any(await self._queue.waiting()):
            return False
        threads = cast("int", await self._store.command("ZCARD", keys.OPEN_THREADS))
        lacking = await engine.count_terms() < threads
        return lacking or (live is not None and await engine.count_vectors(live.name) < threads)

    async def _sweep(self, live: IndexVersion | None) -> None:
        """Put every open thread without a document, or without vectors, into the backlog."""
        self._swept = time.monotonic()
        self._swept_for = live
        name = live.name if live else None
        async for threads in _members(self._store, keys.OPEN_THREADS):
            await self._queue.anew(await self._index.lacking(threads, name))

    async def _forget_old(self, engine: QueryEngine | None) -> None:
        """Remove what is left of generations that are not used any more."""
        live, target = await asyncio.gather(self._generations.live(), self._generations.target())
        used = {generation.name for generation in (live, target) if generation}
        now = time.monotonic()
        for name in await self._generations.known():
            if name in used or now - self._retired.setdefault(name, now) < GRACE:
                continue
            if engine:
                await engine.drop_vectors(name)
            for listed in (keys.OPEN_THREADS, keys.CLOSED_THREADS):
                async for threads in _members(self._store, listed):
                    await self._index.remove_all_vectors(name, threads)
            await self._generations.forget(name)
            del self._retired[name]


async def _members(store: Store, listed: str) -> AsyncIterator[list[str]]:
    """All threads of a list in chunks. Those that are there throughout are met; some maybe twice (ZSCAN)."""
    cursor = b"0"
    while True:
        reply = await store.command("ZSCAN", listed, cursor, "COUNT", CHUNK)
        cursor, flat = cast("tuple[bytes, Sequence[bytes]]", reply)
        yield [name.decode() for name in flat[::2]]
        if cursor == b"0":
            return
