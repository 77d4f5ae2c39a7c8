"""All that a worker does for search, put together."""

import asyncio
from collections.abc import Sequence

import structlog

from node.common import process
from node.config import Settings
from node.embedding.embedder import Embedder
from node.embedding.model import ModelUnavailable
from node.search.indexing.indexer import Indexer
from node.search.indexing.memory_replica import MemoryReplica
from node.search.indexing.reconcile import Reconciler
from node.search.rpc.server import WorkerServer
from node.search.store import SearchStore
from node.search.threads import Threads
from node.search.worker_loop import unless
from node.store import Store
from node.store.outbox import Event

log = structlog.get_logger()


class SearchWorker:
    """Indexes threads, embeds queries, and searches where there is no query engine.

    `documents` is the Redis that is searched: RELAY_SEARCH_URL, else `store`.
    """

    def __init__(self, store: Store, documents: Store, threads: Threads, settings: Settings) -> None:
        shared = SearchStore(store, documents)
        self._embedder = Embedder(settings.embedding_model, settings.data_dir / "models")
        self._indexer = Indexer(shared, threads, self._embedder)
        self._memory = MemoryReplica(shared, threads)
        self._server = WorkerServer(store, self._embedder, self._memory)
        self._reconciler = Reconciler(shared, threads, self._embedder, settings.vector_index)

    async def handle(self, events: Sequence[Event]) -> None:
        """For the consumer group `index`. Raises StoreUnavailable."""
        await self._indexer.handle(events)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        try:
            async with asyncio.TaskGroup() as work:
                work.create_task(self._memory.run(stop))
                work.create_task(self._server.run(stop))
                work.create_task(self._indexer.run(stop))
                work.create_task(self._load_model(stop))
                work.create_task(self._reconciler.run(stop))
        finally:
            self._embedder.close()

    async def _load_model(self, stop: asyncio.Event) -> None:
        """Load the model while the rest goes on: by text at first, by meaning once the model is there."""
        try:
            model = await unless(stop, self._embedder.load())
        except ModelUnavailable as error:
            self._indexer.text_only = True
            log.warning("search by text only", reason=str(error))
            return
        if model:
            process.freeze()
            log.info("embedding model loaded", model=model.fingerprint, dimension=model.dimension)
            await self._reconciler.look_soon()
