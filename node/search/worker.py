"""Composes everything that a worker does for search."""

import asyncio
from collections.abc import Sequence

import structlog

from node.common import process
from node.config import Settings
from node.embedding.embedder import Embedder
from node.embedding.model import ModelUnavailable
from node.search.corpus import Corpus
from node.search.indexing.indexer import Indexer
from node.search.indexing.memory_replica import MemoryReplica
from node.search.indexing.reconcile import Reconciler
from node.search.rpc.server import WorkerServer
from node.search.store import SearchStore
from node.search.worker_loop import unless
from node.store import Store
from node.store.outbox import Event

log = structlog.get_logger()


class CorpusWorker:
    """Indexes one corpus and answers the requests of web processes about it."""

    def __init__(self, store: SearchStore, embedder: Embedder, settings: Settings) -> None:
        self.indexer = Indexer(store, embedder)
        self.reconciler = Reconciler(store, embedder, settings.vector_index)
        self._memory = MemoryReplica(store)
        self.server = WorkerServer(store, embedder, self._memory)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        async with asyncio.TaskGroup() as work:
            work.create_task(self._memory.run(stop))
            work.create_task(self.server.run(stop))
            work.create_task(self.indexer.run(stop))
            work.create_task(self.reconciler.run(stop))

    def close(self) -> None:
        """Shut down what runs outside the event loop."""
        self._memory.close()


class SearchWorker:
    """Indexes all corpora, embeds queries, and searches in memory where there is no query engine.

    `searched` is the Redis that holds the documents: RELAY_SEARCH_URL if set, else `store`.
    """

    def __init__(self, store: Store, searched: Store, corpora: Sequence[Corpus], settings: Settings) -> None:
        self._embedder = Embedder(settings.embedding_model, settings.data_dir / "models")
        self._workers = [
            CorpusWorker(SearchStore(store, searched, corpus), self._embedder, settings) for corpus in corpora
        ]

    async def handle(self, events: Sequence[Event]) -> None:
        """Handle events for the consumer group `index`. Raises StoreUnavailable."""
        for worker in self._workers:
            await worker.indexer.handle(events)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set. May be called again after a failure."""
        async with asyncio.TaskGroup() as work:
            for worker in self._workers:
                work.create_task(worker.run(stop))
            if self._embedder.model is None:
                work.create_task(self._load_model(stop))

    def close(self) -> None:
        """Shut down what runs outside the event loop. Call this only after `run` has ended."""
        for worker in self._workers:
            worker.close()
        self._embedder.close()

    async def _load_model(self, stop: asyncio.Event) -> None:
        """Load the model while everything else runs. Until it is loaded, searches are by text only."""
        try:
            model = await unless(stop, self._embedder.load())
        except ModelUnavailable as error:
            for worker in self._workers:
                worker.indexer.text_only = True
            log.warning("search by text only", reason=str(error))
            return
        if model:
            process.freeze()
            log.info("embedding model loaded", model=model.fingerprint, dimension=model.dimension)
            for worker in self._workers:
                worker.server.beat_soon()
                await worker.reconciler.look_soon()
