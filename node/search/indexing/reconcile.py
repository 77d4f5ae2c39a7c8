"""Reconciles the search index with its desired state: it must exist, be of the right kind, and be complete.

The reconciler looks when a worker starts, when Redis comes back, when an operator asks, and every few seconds. It puts
what is missing into the backlog. A new kind of vectors is built beside the version in use, which continues to answer
queries; then queries are switched to the new version and the old vectors are removed.
"""

import asyncio
import time
from contextlib import suppress

import structlog

from node.embedding.embedder import Embedder
from node.search.engines.redisearch import QueryEngine
from node.search.index_versions import AlgorithmChoice, IndexVersion, Scalar, is_made_by
from node.search.store import SearchStore
from node.search.worker_loop import unless, until_woken
from node.store import CommandFailed, StoreUnavailable

log = structlog.get_logger()

POLL_SECONDS = 10.0
"""Time between two looks."""

SWEEP_SECONDS = 60.0
"""Time after a sweep (a comparison of all entities with all documents) before the engine's documents are counted."""

GRACE_SECONDS = 30.0
"""Time for which unused vectors are kept: queries may be under way, and workers may not know of the switch yet."""


class Reconciler:
    """Reconciles the index on behalf of one worker. Several workers may do so at the same time."""

    def __init__(self, store: SearchStore, embedder: Embedder, algorithm: AlgorithmChoice) -> None:
        self._store = store
        self._versions = store.versions
        self._source = store.corpus.source
        self._embedder = embedder
        self._algorithm: AlgorithmChoice = algorithm
        self._is_first_look = True
        self._swept_at = 0.0
        self._swept_for: tuple[tuple[int, int], IndexVersion | None] | None = None
        """The reconnection counts and the version at the last sweep; None before the first sweep."""
        self._unused_since: dict[str, float] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Look every POLL_SECONDS, or when woken, until `stop` is set."""
        with await self._store.wakeups.listen(self._store.keys.current) as listener:
            while not stop.is_set():
                try:
                    await unless(stop, self.look())
                except StoreUnavailable:
                    pass
                except Exception as error:
                    if isinstance(error, CommandFailed):
                        self._store.choice.forget()
                    log.exception("search index not looked after")
                await until_woken(listener, POLL_SECONDS, stop)

    async def look_soon(self) -> None:
        """Make this worker look now, and all other workers too."""
        with suppress(StoreUnavailable):
            await self._store.main.command("SPUBLISH", self._store.keys.current, "")

    async def look(self) -> None:
        """Determine what is missing, and have it made. Raises StoreUnavailable, CommandFailed."""
        engine = await self._store.choice.query_engine()
        current, built = await self._settled(engine)
        if engine:
            await engine.ensure_terms()
            for version in filter(None, (current, built)):
                await engine.ensure_vectors(version)
        if built:
            await self._build(built)
        usable = current if self._embedder.model else None
        reconnects = self._store.reconnects
        if (reconnects, usable) != self._swept_for or await self._lacks_documents(engine, usable):
            await self._sweep(usable)
            self._swept_for = reconnects, usable  # set last, so that a failed sweep is repeated
        await self._remove_old(engine)

    async def _settled(self, engine: QueryEngine | None) -> tuple[IndexVersion | None, IndexVersion | None]:
        """Return the version in use and the version being built. Begin a version first if this worker wants another."""
        current, built = await self._versions.both()
        model = self._embedder.model
        if model is None:
            return current, built
        scalar = await self._scalar(engine)
        passages = await self._count_passages(engine, current)
        wanted = await self._versions.wanted(self._algorithm, model, current, passages, scalar)
        if current is None:
            await self._versions.use(wanted)
            current = wanted
        # A version of another kind is started only by a worker that has just started with another model. Otherwise two
        # workers with different models would replace each other's index for ever.
        elif wanted not in (current, built) and (self._is_first_look or current.model == wanted.model):
            log.info("search index is rebuilt", index_version=wanted.name, algorithm=wanted.algorithm)
            await self._versions.build(wanted)
            built = wanted
        self._is_first_look = False
        return current, built

    async def _count_passages(self, engine: QueryEngine | None, current: IndexVersion | None) -> int:
        """Return the number of passages, counting at least one for each open entity in case the index is incomplete."""
        entities = await self._source.count_open()
        if engine is None or current is None:
            return entities
        await engine.ensure_vectors(current)
        return max(entities, await engine.count_vectors(current.name))

    async def _scalar(self, engine: QueryEngine | None) -> Scalar:
        """Return the smallest type of number in which vectors can be stored."""
        return "float16" if engine is None or await engine.keeps_float16() else "float32"

    async def _build(self, built: IndexVersion) -> None:
        """Have the vectors of a version made, and switch to the version when they are complete."""
        if not is_made_by(self._embedder.model, built):
            return
        if not await self._versions.is_filled():
            async for entities in self._source.scan_open():
                await self._store.queue.add_to_backlog(entities)
            await self._versions.mark_filled(built)
        if await self._versions.switch(built):
            log.info("search index switched", index_version=built.name)

    async def _lacks_documents(self, engine: QueryEngine | None, current: IndexVersion | None) -> bool:
        """Return whether the engine has too few documents; False within SWEEP_SECONDS after a sweep, and while anything
        is queued."""
        is_early = time.monotonic() - self._swept_at < SWEEP_SECONDS
        if engine is None or is_early or any(await self._store.queue.lengths()):
            return False
        entities = await self._source.count_open()
        has_too_few = await engine.count_terms() < entities
        return has_too_few or (current is not None and await engine.count_vectors(current.name) < entities)

    async def _sweep(self, current: IndexVersion | None) -> None:
        """Put every open entity that lacks a document or vectors into the backlog."""
        self._swept_at = time.monotonic()
        name = current.name if current else None
        async for entities in self._source.scan_open():
            await self._store.queue.add_to_backlog(await self._store.documents.incomplete(entities, name))

    async def _remove_old(self, engine: QueryEngine | None) -> None:
        """Remove the vectors and indexes of versions that are no longer used."""
        used = {version.name for version in await self._versions.both() if version}
        unused, now = set(await self._versions.names()) - used, time.monotonic()
        self._unused_since = {name: self._unused_since.get(name, now) for name in unused}
        for name in unused:
            if now - self._unused_since[name] < GRACE_SECONDS:
                continue
            if engine:
                await engine.drop_vectors(name)
            await self._store.documents.remove_version(name)
            await self._versions.forget(name)
